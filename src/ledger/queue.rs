//! Answers on their way to the thread that writes, gathered so that one sync serves many.
//!
//! Calls that began together are answered within some milliseconds. To sync for each of them would cost more than all
//! else that is done for a row, and would slow down the very answers that are still coming.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest that an answer waits for company. Far below what anybody notices, and time for most of a burst.
const GATHER: Duration = Duration::from_millis(5);

/// The end that things are put into.
pub(super) struct Entrance<T>(Arc<Queue<T>>);

/// The end that groups come out of.
pub(super) struct Exit<T>(Arc<Queue<T>>);

struct Queue<T> {
    gathered: Mutex<Gathered<T>>,
    changed: Condvar,
    /// A group of so many waits no longer.
    enough: usize,
}

struct Gathered<T> {
    group: Vec<T>,
    /// One of the ends is gone.
    closed: bool,
}

/// A queue whose groups wait until there are `enough`, or a short time.
pub(super) fn queue<T>(enough: usize) -> (Entrance<T>, Exit<T>) {
    let queue = Arc::new(Queue {
        gathered: Mutex::new(Gathered {
            group: Vec::new(),
            closed: false,
        }),
        changed: Condvar::new(),
        enough: enough.max(1),
    });
    (Entrance(Arc::clone(&queue)), Exit(queue))
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Gathered<T>> {
        // A panic beside it cannot leave a vector half pushed to.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Entrance<T> {
    /// Puts something in; gives it back when the other end is gone.
    pub(super) fn put(&self, one: T) -> Result<(), T> {
        let Self(queue) = self;
        let mut gathered = queue.lock();
        if gathered.closed {
            return Err(one);
        }
        gathered.group.push(one);
        let many = gathered.group.len();
        drop(gathered);
        // To wake for each would cost more than it brings.
        if many == 1 || many == queue.enough {
            queue.changed.notify_one();
        }
        Ok(())
    }
}

impl<T> Exit<T> {
    /// The next group; `None` when there will be no more.
    pub(super) fn next(&self) -> Option<Vec<T>> {
        let Self(queue) = self;
        let empty = |gathered: &mut Gathered<T>| gathered.group.is_empty() && !gathered.closed;
        let few =
            |gathered: &mut Gathered<T>| gathered.group.len() < queue.enough && !gathered.closed;
        let waited = queue.changed.wait_while(queue.lock(), empty);
        let gathered = waited.unwrap_or_else(PoisonError::into_inner);
        let waited = queue.changed.wait_timeout_while(gathered, GATHER, few);
        let (mut gathered, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let group = std::mem::take(&mut gathered.group);
        (!group.is_empty()).then_some(group)
    }
}

impl<T> Drop for Entrance<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl<T> Drop for Exit<T> {
    /// What is left is dropped, so that nobody waits for it.
    fn drop(&mut self) {
        let mut gathered = self.0.lock();
        gathered.closed = true;
        gathered.group.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_waits_for_company_and_not_for_long() {
        let (entrance, exit) = queue(3);
        for one in 0..7 {
            assert_eq!(entrance.put(one), Ok(()));
        }
        assert_eq!(exit.next(), Some((0..7).collect()));
        assert_eq!(entrance.put(7), Ok(()));
        assert_eq!(exit.next(), Some(vec![7]), "alone, after a moment");
        assert_eq!(entrance.put(8), Ok(()));
        drop(entrance);
        assert_eq!(exit.next(), Some(vec![8]), "what was put in comes out");
        assert_eq!(exit.next(), None);
    }

    #[test]
    fn nobody_waits_for_an_end_that_is_gone() {
        let (entrance, exit) = queue(3);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        assert!(entrance.put(sender.clone()).is_ok());
        drop(exit);
        assert!(entrance.put(sender).is_err());
        assert!(
            receiver
                .try_recv()
                .is_err_and(|e| e == std::sync::mpsc::TryRecvError::Disconnected)
        );
    }
}
