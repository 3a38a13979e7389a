//! A queue that hands over its items in groups, so that one sync makes many answers durable.
//!
//! Calls that started together are answered within some milliseconds. A sync for each of them would cost more than
//! everything else that is done for a row, and would slow down the very answers that are still arriving.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest that an answer waits for others. Far below what anybody notices, and long enough for most of a burst.
const GATHER: Duration = Duration::from_millis(5);

/// The end that items are sent to.
pub(super) struct Sender<T>(Arc<Queue<T>>);

/// The end that groups come from.
pub(super) struct Receiver<T>(Arc<Queue<T>>);

struct Queue<T> {
    group: Mutex<Group<T>>,
    changed: Condvar,
    /// A group of this size waits no longer.
    enough: usize,
}

struct Group<T> {
    items: Vec<T>,
    /// It waits for no more items.
    is_urgent: bool,
    /// One of the ends is gone.
    closed: bool,
}

/// A queue whose groups wait until they have `enough` items, or for a short time.
pub(super) fn queue<T>(enough: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        group: Mutex::new(Group {
            items: Vec::new(),
            is_urgent: false,
            closed: false,
        }),
        changed: Condvar::new(),
        enough: enough.max(1),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Group<T>> {
        // A panic elsewhere cannot leave a vector half pushed to.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends an item; returns it when the other end is gone.
    pub(super) fn send(&self, item: T) -> Result<(), T> {
        self.put(item, false)
    }

    /// As [`Self::send`], and the group waits for no more items.
    pub(super) fn send_urgent(&self, item: T) -> Result<(), T> {
        self.put(item, true)
    }

    fn put(&self, item: T, is_urgent: bool) -> Result<(), T> {
        let Self(queue) = self;
        let mut group = queue.lock();
        if group.closed {
            return Err(item);
        }
        group.items.push(item);
        group.is_urgent |= is_urgent;
        let length = group.items.len();
        drop(group);
        // Waking the other end for each item would cost more than it brings.
        if is_urgent || length == 1 || length == queue.enough {
            queue.changed.notify_one();
        }
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// The next group; empty if there is none within `patience`, and `None` when there will be no more.
    pub(super) fn next(&self, patience: Option<Duration>) -> Option<Vec<T>> {
        let Self(queue) = self;
        let is_empty = |group: &mut Group<T>| group.items.is_empty() && !group.closed;
        let is_small = |group: &mut Group<T>| {
            group.items.len() < queue.enough && !group.is_urgent && !group.closed
        };
        let group = if let Some(patience) = patience {
            let waited = queue
                .changed
                .wait_timeout_while(queue.lock(), patience, is_empty);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            let waited = queue.changed.wait_while(queue.lock(), is_empty);
            waited.unwrap_or_else(PoisonError::into_inner)
        };
        if group.items.is_empty() {
            return (!group.closed).then(Vec::new);
        }
        let waited = queue.changed.wait_timeout_while(group, GATHER, is_small);
        let (mut group, _) = waited.unwrap_or_else(PoisonError::into_inner);
        group.is_urgent = false;
        // The next group is about as large.
        let room = Vec::with_capacity(group.items.len());
        Some(std::mem::replace(&mut group.items, room))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl<T> Drop for Receiver<T> {
    /// What is left is dropped, so that nobody waits for it.
    fn drop(&mut self) {
        let mut group = self.0.lock();
        group.closed = true;
        group.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_waits_for_more_items_but_not_for_long() {
        let (sender, receiver) = queue(3);
        for item in 0..7 {
            assert_eq!(sender.send(item), Ok(()));
        }
        assert_eq!(receiver.next(None), Some((0..7).collect()));
        assert_eq!(sender.send(7), Ok(()));
        assert_eq!(receiver.next(None), Some(vec![7]), "alone, after a moment");
        assert_eq!(sender.send(8), Ok(()));
        assert_eq!(
            receiver.next(None),
            Some(vec![8]),
            "what was sent is received"
        );
        assert_eq!(
            receiver.next(Some(Duration::ZERO)),
            Some(vec![]),
            "nothing yet"
        );
        assert_eq!(sender.send(9), Ok(()));
        drop(sender);
        assert_eq!(receiver.next(Some(Duration::ZERO)), Some(vec![9]));
        assert_eq!(receiver.next(Some(GATHER)), None);
    }

    #[test]
    fn what_is_urgent_takes_all_that_waits_along() {
        let (sender, receiver) = queue(1_000);
        assert_eq!(sender.send(1), Ok(()));
        assert_eq!(sender.send_urgent(2), Ok(()));
        let started = std::thread::spawn(move || receiver.next(None));
        assert_eq!(started.join().ok().flatten(), Some(vec![1, 2]));
    }

    #[test]
    fn nobody_waits_for_an_end_that_is_gone() {
        let (sender, receiver) = queue(3);
        let (item, dropped) = std::sync::mpsc::channel::<()>();
        assert!(sender.send(item.clone()).is_ok());
        drop(receiver);
        assert!(sender.send(item).is_err());
        assert!(
            dropped
                .try_recv()
                .is_err_and(|e| e == std::sync::mpsc::TryRecvError::Disconnected)
        );
    }
}
