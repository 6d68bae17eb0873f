//! A watch over the construction of a space: it says which constraint is being worked on, and can end the work.
//!
//! What a space costs to count cannot be told from its text, so construction counts steps, the same on every machine:
//! beyond its limits constraints are left out of the index. A few kinds of work have no such way out. For those the
//! caller's clock decides, and the result is then thrown away: time never shapes a space that is used.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// No constraint: reading, sorting and other work on the whole.
const NONE: usize = usize::MAX;

/// The default never ends the construction. Clones watch the same one.
///
/// ```
/// use evo_space::{SearchSpace, SpaceWatch};
///
/// let text = "constraints = ['A < B']\n[parameters]\nA = [1, 2]\nB = [1, 2]\n";
/// let impatient = SpaceWatch::new(|| true);
/// let errors = SearchSpace::parse_watched(text, &impatient).unwrap_err();
/// assert!(errors.render("space.toml", text).contains("takes too long"));
/// assert!(SearchSpace::parse(text).is_ok());
/// ```
#[derive(Clone, Default)]
pub struct SpaceWatch(Option<Arc<Watched>>);

struct Watched {
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
    over: AtomicBool,
    constraint: AtomicUsize,
}

impl SpaceWatch {
    /// Asks `is_over` a few thousand times a second at most, and ends the work once it says yes.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> SpaceWatch {
        let (over, constraint) = (AtomicBool::new(false), AtomicUsize::new(NONE));
        SpaceWatch(Some(Arc::new(Watched { is_over: Box::new(is_over), over, constraint })))
    }

    /// Whether the work is to end. Once it is, it stays so.
    pub fn is_over(&self) -> bool {
        let Some(watched) = &self.0 else { return false };
        if watched.over.load(Ordering::Relaxed) {
            return true;
        }
        let over = (watched.is_over)();
        watched.over.fetch_or(over, Ordering::Relaxed);
        over
    }

    pub fn constraint(&self) -> Option<usize> {
        let at = self.0.as_ref()?.constraint.load(Ordering::Relaxed);
        (at != NONE).then_some(at)
    }

    /// Notes what is being worked on, unless the work is over: the culprit stays named.
    pub(crate) fn at(&self, constraint: Option<usize>) {
        if let Some(watched) = &self.0
            && !watched.over.load(Ordering::Relaxed)
        {
            watched.constraint.store(constraint.unwrap_or(NONE), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for SpaceWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceWatch").field("constraint", &self.constraint()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_worked_on_at_the_end_stays_named() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let watch = SpaceWatch::new(move || counted.fetch_add(1, Ordering::Relaxed) == 1);
        watch.at(Some(3));
        assert!(!watch.is_over());
        watch.at(Some(4));
        assert!(watch.is_over());
        watch.at(None);
        assert_eq!(watch.constraint(), Some(4));
        assert!(watch.is_over(), "it stays over, whatever the clock says");
        assert!(!SpaceWatch::default().is_over());
    }
}
