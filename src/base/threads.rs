//! For work between threads: locks, and a queue whose items another thread writes, so that a terminal or a disk that hangs delays
//! nobody. It must not know what is written, or where.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the last items may take at the end of the process, because a service manager waits.
const MAX_FLUSH: Duration = Duration::from_secs(1);

/// Locks a mutex whose content is sound at any time, so that a panic in another thread does not become one here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Items that wait to be written, in their order.
pub(crate) struct Queue<T> {
    sender: Sender<Queued<T>>,
    /// The sum of the sizes of the items that wait.
    waiting: Arc<AtomicUsize>,
}

enum Queued<T> {
    /// An item and its size.
    Item(T, usize),
    /// Everything before it is written.
    Flushed(Sender<()>),
}

impl<T: Send + 'static> Queue<T> {
    /// Starts a thread of this name that writes each item.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(name: &str, write: impl FnMut(T) + Send + 'static) -> io::Result<Self> {
        let (queue, items) = Self::new();
        let waiting = Arc::clone(&queue.waiting);
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || write_all(&items, &waiting, write))?;
        Ok(queue)
    }

    fn new() -> (Self, Receiver<Queued<T>>) {
        let (sender, items) = channel();
        let waiting = Arc::default();
        (Self { sender, waiting }, items)
    }

    /// Queues an item, unless items of `max` bytes or more are waiting. Returns whether it did.
    pub(crate) fn put(&self, item: T, size: usize, max: usize) -> bool {
        let has_room = self.waiting.load(Ordering::Relaxed) < max;
        if has_room {
            self.waiting.fetch_add(size, Ordering::Relaxed);
            // The thread ends only with the process.
            let _ = self.sender.send(Queued::Item(item, size));
        }
        has_room
    }

    /// Waits until everything is written, for a second at most. Returns whether it is.
    pub(crate) fn flush(&self) -> bool {
        let (sender, flushed) = channel();
        let _ = self.sender.send(Queued::Flushed(sender));
        flushed.recv_timeout(MAX_FLUSH).is_ok()
    }
}

fn write_all<T>(items: &Receiver<Queued<T>>, waiting: &AtomicUsize, mut write: impl FnMut(T)) {
    for item in items {
        match item {
            Queued::Item(item, size) => {
                write(item);
                waiting.fetch_sub(size, Ordering::Relaxed);
            }
            // The other side has stopped waiting if it took too long.
            Queued::Flushed(sender) => drop(sender.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_nothing_is_written_items_with_less_room_are_dropped_first() {
        let (queue, items) = Queue::new();
        let progress = (0..1_000).filter(|_| queue.put("progress", 100, 1_000));
        assert_eq!(progress.count(), 10);
        assert!(queue.put("words", 100, 10_000));
        // Once they are written, there is room again.
        let waiting = Arc::clone(&queue.waiting);
        drop(queue);
        let mut written = Vec::new();
        write_all(&items, &waiting, |item| written.push(item));
        assert_eq!((written.len(), written.last()), (11, Some(&"words")));
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }
}
