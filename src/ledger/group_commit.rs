//! A queue that hands over its items in groups, so that one sync makes many answers durable.
//!
//! Calls that started together are answered within some milliseconds. A sync for each of them would cost more than
//! everything else that is done for a row, and would slow down the very answers that are still arriving.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
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

/// A queue whose groups wait until they have enough items, or for a short time.
pub(super) struct GroupQueue<T> {
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

impl<T> GroupQueue<T> {
    /// A queue whose groups wait no longer with `enough` items.
    pub(super) fn new(enough: usize) -> Self {
        Self {
            group: Mutex::new(Group {
                items: Vec::new(),
                urgency: Urgency::default(),
                closed: false,
            }),
            changed: Condvar::new(),
            enough: enough.max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Group<T>> {
        // A panic elsewhere cannot leave a vector half pushed to.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an item; returns it when the queue is closed.
    pub(super) fn send(&self, item: T, urgency: Urgency) -> Result<(), T> {
        let mut group = self.lock();
        if group.closed {
            return Err(item);
        }
        group.items.push(item);
        group.urgency = group.urgency.max(urgency);
        let length = group.items.len();
        drop(group);
        // Waking the other end for each item would cost more than it brings.
        if urgency > Urgency::WithAnswers || length == 1 || length == self.enough {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// The next group; empty if there is none within `patience`, and `None` when there will be no more.
    pub(super) fn next(&self, patience: Duration) -> Option<Vec<T>> {
        let is_empty = |group: &mut Group<T>| group.items.is_empty() && !group.closed;
        let waited = { &self.changed }.wait_timeout_while(self.lock(), patience, is_empty);
        let mut group = waited.unwrap_or_else(PoisonError::into_inner).0;
        if group.items.is_empty() {
            return (!group.closed).then(Vec::new);
        }
        while let Some(longest) = group.gathers_for(self.enough) {
            let as_before = |group: &mut Group<T>| group.gathers_for(self.enough) == Some(longest);
            let waited = { &self.changed }.wait_timeout_while(group, longest, as_before);
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

    /// Nothing more is sent. What was sent is still received.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Nothing is received any more. What was sent is dropped, so that nobody waits for it.
    pub(super) fn abandon(&self) {
        let mut group = self.lock();
        group.closed = true;
        group.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_group_waits_for_more_items_but_not_for_long() {
        let queue = GroupQueue::new(3);
        for item in 0..7 {
            assert_eq!(queue.send(item, Urgency::WithAnswers), Ok(()));
        }
        assert_eq!(queue.next(LONG), Some((0..7).collect()));
        assert_eq!(queue.send(7, Urgency::WithAnswers), Ok(()));
        assert_eq!(queue.next(LONG), Some(vec![7]), "alone, after a moment");
        assert_eq!(queue.send(8, Urgency::WithAnswers), Ok(()));
        assert_eq!(queue.next(LONG), Some(vec![8]), "what was sent is received");
        assert_eq!(queue.next(Duration::ZERO), Some(vec![]), "nothing yet");
        assert_eq!(queue.send(9, Urgency::WithAnswers), Ok(()));
        queue.close();
        assert_eq!(queue.next(Duration::ZERO), Some(vec![9]));
        assert_eq!(queue.next(GATHER), None);
    }

    #[test]
    fn a_group_waits_as_long_as_its_most_urgent_item_may() {
        const ENOUGH: usize = 4;
        let queue = GroupQueue::new(ENOUGH);
        let sent = |urgency| {
            assert_eq!(queue.send((), urgency), Ok(()));
            queue.lock().gathers_for(ENOUGH)
        };
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER));
        assert_eq!(sent(Urgency::Soon), Some(GATHER_SOON));
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER_SOON));
        assert_eq!(sent(Urgency::Soon), None, "enough");
        assert_eq!(queue.next(LONG).map(|group| group.len()), Some(ENOUGH));
        assert_eq!(sent(Urgency::WithAnswers), Some(GATHER), "the next group");
        assert_eq!(sent(Urgency::Now), None);
    }

    #[test]
    fn what_is_urgent_takes_all_that_waits_along() {
        let queue = GroupQueue::new(1_000);
        assert_eq!(queue.send(1, Urgency::WithAnswers), Ok(()));
        assert_eq!(queue.send(2, Urgency::Now), Ok(()));
        let started = std::thread::spawn(move || queue.next(LONG));
        assert_eq!(started.join().ok().flatten(), Some(vec![1, 2]));
    }

    #[test]
    fn what_is_soon_takes_all_that_waits_along_and_is_not_kept_for_more() {
        let queue = GroupQueue::new(3);
        for item in 0..3 {
            assert_eq!(queue.send(item, Urgency::Soon), Ok(()));
        }
        assert_eq!(queue.next(LONG), Some(vec![0, 1, 2]), "enough");
        assert_eq!(queue.send(3, Urgency::Soon), Ok(()));
        assert_eq!(queue.next(LONG), Some(vec![3]), "alone, after a moment");
        assert_eq!(queue.send(4, Urgency::Soon), Ok(()));
        assert_eq!(queue.send(5, Urgency::WithAnswers), Ok(()));
        assert_eq!(queue.next(LONG), Some(vec![4, 5]), "together");
    }

    #[test]
    fn nobody_waits_for_an_end_that_is_gone() {
        let queue = GroupQueue::new(3);
        let (item, dropped) = std::sync::mpsc::channel::<()>();
        assert!(queue.send(item.clone(), Urgency::WithAnswers).is_ok());
        queue.abandon();
        assert!(queue.send(item, Urgency::WithAnswers).is_err());
        assert!(
            dropped
                .try_recv()
                .is_err_and(|e| e == std::sync::mpsc::TryRecvError::Disconnected)
        );
    }
}
