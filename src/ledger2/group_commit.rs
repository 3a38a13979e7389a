//! A queue that hands over its items in groups, so that one sync makes many answers durable.
//!
//! Calls that started together are answered within some milliseconds. A sync for each of them would cost more than
//! everything else that is done for a row, and would slow down the very answers that are still arriving.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest that an answer waits for others. Far below what anybody notices, and long enough for most of a burst.
const GATHER: Duration = Duration::from_millis(5);
/// The longest that claims wait while more rows are read, so that the next claims gather. A nightly run over known rows
/// finds some ten new ones meanwhile, and a sync for a few of them writes as much as one for all.
const GATHER_SOON: Duration = Duration::from_millis(2);

/// How long an item waits for others, the longest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Urgency {
    /// With the next answers, which costs less: calls have enough to do until then.
    #[default]
    WithAnswers,
    /// After a moment, in which the next claims gather.
    Soon,
    /// Immediately: no call can start before.
    Now,
}

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
    /// That of its most urgent item.
    urgency: Urgency,
    /// One of the ends is gone.
    closed: bool,
}

/// A queue whose groups wait until they have `enough` items, or for a short time.
pub(super) fn queue<T>(enough: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        group: Mutex::new(Group {
            items: Vec::new(),
            urgency: Urgency::default(),
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

impl<T> Group<T> {
    /// How long it waits for more items, where `enough` of them wait no longer; `None` if not at all.
    fn gathers_for(&self, enough: usize) -> Option<Duration> {
        let longest = match self.urgency {
            Urgency::WithAnswers => GATHER,
            Urgency::Soon => GATHER_SOON,
            Urgency::Now => return None,
        };
        (self.items.len() < enough && !self.closed).then_some(longest)
    }
}

impl<T> Sender<T> {
    /// Sends an item; returns it when the other end is gone.
    pub(super) fn send(&self, item: T, urgency: Urgency) -> Result<(), T> {
        let Self(queue) = self;
        let mut group = queue.lock();
        if group.closed {
            return Err(item);
        }
        group.items.push(item);
        group.urgency = group.urgency.max(urgency);
        let length = group.items.len();
        drop(group);
        // Waking the other end for each item would cost more than it brings.
        if urgency > Urgency::WithAnswers || length == 1 || length == queue.enough {
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
        let mut group = if let Some(patience) = patience {
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
        while let Some(longest) = group.gathers_for(queue.enough) {
            let as_before = |group: &mut Group<T>| group.gathers_for(queue.enough) == Some(longest);
            let waited = queue.changed.wait_timeout_while(group, longest, as_before);
            let (waited, result) = waited.unwrap_or_else(PoisonError::into_inner);
            group = waited;
            if result.timed_out() {
                break;
            }
        }
        group.urgency = Urgency::default();
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
            assert_eq!(sender.send(item, Urgency::WithAnswers), Ok(()));
        }
        assert_eq!(receiver.next(None), Some((0..7).collect()));
        assert_eq!(sender.send(7, Urgency::WithAnswers), Ok(()));
        assert_eq!(receiver.next(None), Some(vec![7]), "alone, after a moment");
        assert_eq!(sender.send(8, Urgency::WithAnswers), Ok(()));
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
        assert_eq!(sender.send(9, Urgency::WithAnswers), Ok(()));
        drop(sender);
        assert_eq!(receiver.next(Some(Duration::ZERO)), Some(vec![9]));
        assert_eq!(receiver.next(Some(GATHER)), None);
    }

    #[test]
    fn a_group_waits_as_long_as_its_most_urgent_item_may() {
        const ENOUGH: usize = 4;
        let (sender, receiver) = queue(ENOUGH);
        let sent = |urgency| {
            assert_eq!(sender.send((), urgency), Ok(()));
            receiver.0.lock().gathers_for(ENOUGH)
        };
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER));
        assert_eq!(sent(Urgency::Soon), Some(GATHER_SOON));
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER_SOON));
        assert_eq!(sent(Urgency::Soon), None, "enough");
        assert_eq!(receiver.next(None).map(|group| group.len()), Some(ENOUGH));
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER), "the next group");
        assert_eq!(sent(Urgency::Now), None);
    }

    #[test]
    fn what_is_urgent_takes_all_that_waits_along() {
        let (sender, receiver) = queue(1_000);
        assert_eq!(sender.send(1, Urgency::WithAnswers), Ok(()));
        assert_eq!(sender.send(2, Urgency::Now), Ok(()));
        let started = std::thread::spawn(move || receiver.next(None));
        assert_eq!(started.join().ok().flatten(), Some(vec![1, 2]));
    }

    #[test]
    fn what_is_soon_takes_all_that_waits_along_and_is_not_kept_for_more() {
        let (sender, receiver) = queue(3);
        for item in 0..3 {
            assert_eq!(sender.send(item, Urgency::Soon), Ok(()));
        }
        assert_eq!(receiver.next(None), Some(vec![0, 1, 2]), "enough");
        assert_eq!(sender.send(3, Urgency::Soon), Ok(()));
        assert_eq!(receiver.next(None), Some(vec![3]), "alone, after a moment");
        assert_eq!(sender.send(4, Urgency::Soon), Ok(()));
        assert_eq!(sender.send(5, Urgency::WithAnswers), Ok(()));
        assert_eq!(receiver.next(None), Some(vec![4, 5]), "together");
    }

    #[test]
    fn nobody_waits_for_an_end_that_is_gone() {
        let (sender, receiver) = queue(3);
        let (item, dropped) = std::sync::mpsc::channel::<()>();
        assert!(sender.send(item.clone(), Urgency::WithAnswers).is_ok());
        drop(receiver);
        assert!(sender.send(item, Urgency::WithAnswers).is_err());
        assert!(
            dropped
                .try_recv()
                .is_err_and(|e| e == std::sync::mpsc::TryRecvError::Disconnected)
        );
    }
}
