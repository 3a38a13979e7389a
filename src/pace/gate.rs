//! The gate that every attempt passes: concurrency, answers not yet durable, rate, pause, stop.
//!
//! One owner for all of them, because they mean one thing together: may a call begin now? Runs on one thread.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, sleep_until};

use super::limiter::{Limiter, Rate};
use crate::event::Pause;

/// Gives permits for attempts.
pub struct Gate {
    /// Whether there was a first verdict.
    proven: Cell<bool>,
    /// As many as calls may be in flight.
    permits: Semaphore,
    /// As many as calls may be in flight or have answers that are not durable yet: what a power cut can bill twice.
    unsettled: Semaphore,
    /// Whoever waits for the rate or a pause waits here in turn, so that one timer runs and not one a permit.
    turnstile: Mutex<()>,
    limiter: Limiter,
    paused_until: Cell<Option<Instant>>,
    /// Pauses in a row that the service named no time for.
    guesses: Cell<u32>,
    /// Time in pauses since the service last said anything else.
    paused_in_a_row: Cell<Duration>,
    closed: Cell<bool>,
    closing: Notify,
    random: Cell<fastrand::Rng>,
}

/// The right to make one attempt, given back when dropped.
pub struct Permit<'a> {
    in_flight: SemaphorePermit<'a>,
    unsettled: SemaphorePermit<'a>,
    /// When the attempt may begin: now.
    began: Instant,
}

impl Permit<'_> {
    /// When the permit was given.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }
}

impl<'a> Permit<'a> {
    /// The call is over: another one may begin. What stays is to be dropped when its answer is durable.
    #[must_use]
    pub fn over(self) -> Unsettled<'a> {
        drop(self.in_flight);
        Unsettled(self.unsettled)
    }
}

/// A call whose answer is not durable yet, until it is dropped.
pub struct Unsettled<'a>(#[allow(dead_code, reason = "held, not read")] SemaphorePermit<'a>);

/// Calls in flight and answers that are not durable yet, as a multiple of the calls in flight: while one group of
/// answers is synced the next calls go on.
const UNSETTLED: usize = 2;

/// The run is stopping: no call may begin any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// The first pause when the service asks for less without naming a time …
const FIRST_GUESS: Duration = Duration::from_secs(1);
/// … doubling up to this: a minute is the window of most limits.
const LONGEST_GUESS: Duration = Duration::from_secs(60);
/// The share by which a named pause is stretched at most, so that many programs do not come back in the same instant.
const PAUSE_JITTER: f64 = 0.1;

impl Gate {
    /// A gate for so many calls in flight at this rate.
    #[must_use]
    pub fn new(concurrency: NonZeroUsize, rate: Rate, random: fastrand::Rng) -> Self {
        Self {
            proven: Cell::new(false),
            permits: Semaphore::new(concurrency.get().min(Semaphore::MAX_PERMITS)),
            unsettled: Semaphore::new(
                concurrency
                    .get()
                    .saturating_mul(UNSETTLED)
                    .min(Semaphore::MAX_PERMITS),
            ),
            turnstile: Mutex::new(()),
            limiter: Limiter::new(rate),
            paused_until: Cell::new(None),
            guesses: Cell::new(0),
            paused_in_a_row: Cell::new(Duration::ZERO),
            closed: Cell::new(false),
            closing: Notify::new(),
            random: Cell::new(random),
        }
    }

    /// Whether the service has given a verdict yet. Until then one row is tried at a time (the canary): a wrong key or a
    /// service that is down must not get a call of every row.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.proven.get()
    }

    /// Waits until a call may begin. Dropped before, it has used up nothing.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub async fn permit(&self) -> Result<Permit<'_>, Closed> {
        let unsettled = self.unsettled.acquire().await.map_err(|_| Closed)?;
        let in_flight = self.permits.acquire().await.map_err(|_| Closed)?;
        let passing = self.turnstile.lock().await;
        loop {
            if self.closed.get() {
                return Err(Closed);
            }
            if let Some(until) = self
                .paused_until
                .get()
                .filter(|until| *until > Instant::now())
            {
                self.unless_closed(sleep_until(until)).await?;
                continue;
            }
            match self.limiter.check() {
                Ok(()) => break,
                Err(wait) => self.unless_closed(sleep(wait)).await?,
            }
        }
        drop(passing);
        Ok(Permit {
            in_flight,
            unsettled,
            began: Instant::now(),
        })
    }

    /// Waits for a back-off; no permit is held meanwhile.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub async fn back_off(&self, length: Duration) -> Result<(), Closed> {
        if self.closed.get() {
            return Err(Closed);
        }
        self.unless_closed(sleep(length)).await
    }

    async fn unless_closed(&self, wait: impl Future<Output = ()>) -> Result<(), Closed> {
        let (wait, closing) = (
            std::pin::pin!(wait),
            std::pin::pin!(self.closing.notified()),
        );
        match select(wait, closing).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(Closed),
        }
    }

    /// The service gave a verdict: the canary has come back, and pauses are guessed from the start again.
    pub fn verdict_came(&self) {
        self.proven.set(true);
        self.guesses.set(0);
    }

    /// Pauses all calls because the one that began at `began` was refused. Of many calls that were out together the
    /// first refusal counts; a later one only counts when it asks for more.
    pub fn pause(&self, asked: Option<Duration>, began: Instant) -> Option<Pause> {
        let now = Instant::now();
        let known = self.paused_until.get();
        let named = asked.filter(|asked| !asked.is_zero());
        let length = if let Some(named) = named {
            named.mul_f64(1.0 + PAUSE_JITTER * self.fraction())
        } else if known.is_some_and(|until| began < until) {
            // It was sent before the last pause was decided and says nothing new.
            return None;
        } else {
            let guesses = self.guesses.get();
            self.guesses.set(guesses.saturating_add(1));
            // "Come back at once" is believed once: said again and again it would be a call after a call for ever.
            match (asked, guesses) {
                (Some(_), 0) => Duration::ZERO,
                (Some(_), again) => guess(again - 1),
                (None, again) => guess(again),
            }
        };
        let until = now + length;
        if known.is_some_and(|known| known >= until) {
            return None;
        }
        self.paused_until.set(Some(until));
        // What overlaps the pause before counts once.
        let more = until.saturating_duration_since(known.map_or(now, |known| known.max(now)));
        self.paused_in_a_row.set(self.paused_in_a_row.get() + more);
        (!length.is_zero()).then_some(Pause {
            length,
            asked: named,
        })
    }

    /// The service said something else than to wait.
    pub fn not_refused(&self) {
        self.paused_in_a_row.set(Duration::ZERO);
    }

    /// How long the pauses have been since then, together. Time that a laptop slept or a producer was silent is not in it.
    pub const fn paused_in_a_row(&self) -> Duration {
        self.paused_in_a_row.get()
    }

    /// Gives no permit any more and wakes everybody who waits for one.
    pub fn close(&self) {
        self.closed.set(true);
        self.permits.close();
        self.unsettled.close();
        self.closing.notify_waiters();
    }

    /// Whether the run is stopping.
    pub const fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// A random number from 0 up to 1, from the run's one source.
    pub fn fraction(&self) -> f64 {
        let mut random = self.random.replace(fastrand::Rng::with_seed(0));
        let fraction = random.f64();
        self.random.set(random);
        fraction
    }
}

fn guess(doublings: u32) -> Duration {
    FIRST_GUESS
        .saturating_mul(1 << doublings.min(6))
        .min(LONGEST_GUESS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn gate(concurrency: usize, rate: &str) -> Gate {
        Gate::new(
            concurrency.try_into().unwrap(),
            rate.parse().unwrap(),
            fastrand::Rng::with_seed(7),
        )
    }

    async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn come_back_at_once_is_believed_once() {
        let gate = gate(4, "unlimited");
        let mut lengths = Vec::new();
        for _ in 0..4 {
            let began = Instant::now();
            sleep(Duration::from_millis(1)).await;
            let pause = gate.pause(Some(Duration::ZERO), began);
            lengths.push(pause.map_or(0, |pause| pause.length.as_secs()));
            assert_eq!(
                gate.pause(Some(Duration::ZERO), began),
                None,
                "sent with the first"
            );
            drop(gate.permit().await.unwrap());
        }
        assert_eq!(lengths, [0, 1, 2, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_are_as_many_as_calls_may_be_in_flight() {
        let gate = gate(2, "unlimited");
        let first = at_once(gate.permit()).await.unwrap();
        let _second = at_once(gate.permit()).await.unwrap();
        assert!(at_once(gate.permit()).await.is_none());
        drop(first);
        assert!(at_once(gate.permit()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_and_answers_that_are_not_durable_are_twice_the_concurrency_at_most() {
        let gate = gate(2, "unlimited");
        let answered = || async { at_once(gate.permit()).await.unwrap().unwrap().over() };
        let first = answered().await;
        let _second = answered().await;
        let _third = at_once(gate.permit()).await.unwrap();
        let _fourth = at_once(gate.permit()).await.unwrap().unwrap().over();
        assert!(at_once(gate.permit()).await.is_none());
        drop(first);
        assert!(at_once(gate.permit()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_everybody_and_ends() {
        let gate = gate(2, "unlimited");
        gate.verdict_came();
        let began = Instant::now();
        let pause = gate.pause(Some(Duration::from_secs(30)), began).unwrap();
        assert!((30.0..=33.0).contains(&pause.length.as_secs_f64()));
        let permit = gate.permit().await.unwrap();
        assert!(permit.began() - began >= pause.length);
        assert!(at_once(gate.permit()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_calls_sent_together_count_once_and_guesses_double() {
        let gate = gate(64, "unlimited");
        let mut lengths = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            lengths.push(gate.pause(None, began).unwrap().length.as_secs());
            assert_eq!(gate.pause(None, began), None, "sent with the first");
            drop(gate.permit().await.unwrap());
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        gate.verdict_came();
        assert_eq!(
            gate.pause(None, Instant::now()).unwrap().length.as_secs(),
            1
        );
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_everybody_at_once() {
        let gate = gate(1, "0.01/s");
        let began = Instant::now();
        drop(gate.permit().await.unwrap());
        let waiting = async {
            tokio::join!(
                gate.permit(),
                gate.permit(),
                gate.back_off(Duration::from_secs(99))
            )
        };
        let ((first, second, third), ()) = tokio::join!(waiting, async { gate.close() });
        assert!(first.is_err() && second.is_err() && third.is_err());
        assert!(gate.permit().await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
