//! The answers of a run that keeps none beyond its end: in memory, and in a temporary database once they are too many.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::answer_memory::AnswerMemory;
use super::group_commit::Sender;
use super::request_key::RequestKey;
use super::write_thread::{Pending, thread_is_gone};
use crate::base::error::Result;
use crate::verdict::Answer;

/// Answers in memory. They cost the calling thread far less than a turn of the ledger's thread.
#[derive(Default)]
pub(super) struct InMemory {
    answers: AnswerMemory,
    /// Those that were too many, which are found here until they are in the database, and how that ends.
    moving: Option<(Arc<AnswerMemory>, oneshot::Receiver<Result<()>>)>,
}

impl InMemory {
    /// Keeps the answer to a request that equal rows share; `false` if there is no room until those that are being moved
    /// are in the database.
    ///
    /// # Errors
    /// Answers could not be moved.
    pub(super) fn keep(
        &mut self,
        key: &RequestKey,
        answer: &Answer,
        at: i64,
        pending: &Sender<Pending>,
    ) -> Result<bool> {
        self.look_after_moving()?;
        if self.answers.is_full() && self.moving.is_none() {
            let answers = Arc::new(self.answers.take());
            let (done, moved) = oneshot::channel();
            let move_them = Pending::Memory {
                answers: Arc::clone(&answers),
                done,
            };
            // If the thread is gone, that is seen with the next answer.
            let _ = pending.send_urgent(move_them);
            self.moving = Some((answers, moved));
        }
        let has_room = !self.answers.is_overfull();
        if has_room {
            self.answers.keep(key, answer, at);
        }
        Ok(has_room)
    }

    fn look_after_moving(&mut self) -> Result<()> {
        let Some((_, moved)) = &mut self.moving else {
            return Ok(());
        };
        let moved = match moved.try_recv() {
            Ok(moved) => moved,
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Closed) => Err(thread_is_gone()),
        };
        self.moving = None;
        moved
    }

    /// The answer to a request, if it is in memory.
    pub(super) fn find(&self, key: &RequestKey) -> Option<Answer> {
        let moving = || self.moving.as_ref()?.0.find(key);
        self.answers.find(key).or_else(moving)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::answer_memory::MOST;
    use super::super::group_commit::queue;
    use super::super::request_key::RequestHasher;
    use super::*;
    use crate::verdict::{Score, TransactionId};

    #[test]
    fn memory_is_given_back_once_its_answers_are_moved_and_others_wait_if_that_takes_long() {
        let (pending, received) = queue(1);
        let (hasher, mut memory) = (RequestHasher::of_pass(), InMemory::default());
        let key = |number: usize| hasher.key(&number.to_le_bytes());
        let answer = Answer {
            transaction_id: TransactionId::new("t-1").unwrap(),
            score: Score::from_json_number("1.50").unwrap(),
            captured: Box::default(),
        };
        let keep = |memory: &mut InMemory, number| {
            memory.keep(&key(number), &answer, 1, &pending).unwrap()
        };
        assert!((0..3 * MOST).all(|number| keep(&mut memory, number)));
        assert!(!keep(&mut memory, 3 * MOST));
        assert!((0..3 * MOST).all(|number| memory.find(&key(number)).is_some()));
        let mut received = received.next(None).unwrap().into_iter();
        let moved = match received.next() {
            Some(Pending::Memory { answers, done }) => Some((answers, done)),
            _ => None,
        };
        let (answers, done) = moved.unwrap();
        assert!(received.next().is_none());
        let moved: usize = answers.blocks().iter().map(|block| block.answers).sum();
        assert_eq!(moved, MOST);
        done.send(Ok(())).unwrap();
        assert!(keep(&mut memory, 3 * MOST));
        assert!(memory.find(&key(0)).is_none());
        assert!((MOST..=3 * MOST).all(|number| memory.find(&key(number)).is_some()));
    }
}
