//! What evo asks of the operating system, with the care that strangers' programs and files need.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod beneath;
pub mod machine;
pub mod process;
pub mod regular;
pub mod scratch;

/// A poisoned lock stays usable: no critical section leaves its value half changed.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
