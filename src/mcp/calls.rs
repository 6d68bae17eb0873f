//! The calls that are under way: each can be asked to stop, by its request's id or with all others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// Calls at once. Commands that use a device wait for each other anyway.
const CALLS_MAX: usize = 16;

/// The calls of one server.
#[derive(Debug, Default)]
pub struct RunningCalls {
    stops: Mutex<BTreeMap<String, Arc<AtomicBool>>>,
    ended: Condvar,
}

/// One call under way. Dropping it takes it off the list.
#[derive(Debug)]
pub struct RunningCall {
    calls: Arc<RunningCalls>,
    id: String,
    stop: Arc<AtomicBool>,
}

impl RunningCalls {
    /// Puts a call on the list.
    pub fn begin(self: &Arc<RunningCalls>, id: &Value) -> Result<RunningCall, String> {
        let (id, stop) = (id.to_string(), Arc::new(AtomicBool::new(false)));
        let mut stops = self.lock();
        if stops.contains_key(&id) {
            return Err(format!("a call with the id {id} is under way"));
        }
        if stops.len() >= CALLS_MAX {
            return Err(format!("{CALLS_MAX} calls are under way: wait for one of them"));
        }
        stops.insert(id.clone(), stop.clone());
        Ok(RunningCall { calls: self.clone(), id, stop })
    }

    /// Asks a call to stop, if it is under way.
    pub fn cancel(&self, id: &Value) {
        if let Some(stop) = self.lock().get(&id.to_string()) {
            stop.store(true, Ordering::SeqCst);
        }
    }

    /// Asks all calls to stop, and waits until they have, or for as long as `patience`.
    pub fn stop_all(&self, patience: Duration) {
        let stops = self.lock();
        stops.values().for_each(|stop| stop.store(true, Ordering::SeqCst));
        // A poisoned lock stays usable, as everywhere here: the list is whole after each change.
        let _ = self.ended.wait_timeout_while(stops, patience, |stops| !stops.is_empty());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AtomicBool>>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    /// Whether somebody asked it to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
        self.calls.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_stopped_by_its_id_and_leaves_the_list_with_its_end() {
        let calls = Arc::new(RunningCalls::default());
        let (one, text) = (calls.begin(&1.into()).unwrap(), calls.begin(&"1".into()).unwrap());
        assert!(calls.begin(&1.into()).is_err());
        calls.cancel(&1.into());
        calls.cancel(&"nobody".into());
        assert_eq!((one.is_stopped(), text.is_stopped()), (true, false));
        drop(one);
        assert!(calls.begin(&1.into()).is_ok());
    }

    #[test]
    fn there_is_room_for_so_many_and_all_stop_at_once() {
        let calls = Arc::new(RunningCalls::default());
        let mut running: Vec<_> = (0..CALLS_MAX).map(|id| calls.begin(&id.into()).unwrap()).collect();
        assert!(calls.begin(&"late".into()).unwrap_err().contains("under way"));
        calls.stop_all(Duration::from_millis(1));
        assert!(running.iter().all(RunningCall::is_stopped));
        running.clear();
        calls.stop_all(Duration::from_secs(60));
    }
}
