//! The gate that every attempt passes: concurrency, rate, pause, stop.
//!
//! One owner for all four, because they mean one thing together: may a call begin now? Runs on one thread.

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
    /// Rows that may be tried: one until the service has given its first verdict (the canary), then all. A service that
    /// is down must not get a call of every row while the first one backs off.
    turns: Semaphore,
    /// Whether there was a first verdict.
    proven: Cell<bool>,
    /// As many as calls may be in flight.
    permits: Semaphore,
    /// Whoever waits for the rate or a pause waits here in turn, so that one timer runs and not one a permit.
    turnstile: Mutex<()>,
    limiter: Limiter,
    paused_until: Cell<Option<Instant>>,
    /// Pauses in a row that the service named no time for.
    guesses: Cell<u32>,
    closed: Cell<bool>,
    closing: Notify,
    random: Cell<fastrand::Rng>,
}

/// The right to try a row, however often; given back when dropped.
pub struct Turn<'a>(#[allow(dead_code, reason = "held, not read")] Option<SemaphorePermit<'a>>);

/// The right to make one attempt, given back when dropped.
pub struct Permit<'a> {
    _permit: SemaphorePermit<'a>,
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
    /// A gate for so many calls in flight at this rate; it begins with one row.
    #[must_use]
    pub fn new(concurrency: NonZeroUsize, rate: Rate, random: fastrand::Rng) -> Self {
        Self {
            turns: Semaphore::new(1),
            proven: Cell::new(false),
            permits: Semaphore::new(concurrency.get().min(Semaphore::MAX_PERMITS)),
            turnstile: Mutex::new(()),
            limiter: Limiter::new(rate),
            paused_until: Cell::new(None),
            guesses: Cell::new(0),
            closed: Cell::new(false),
            closing: Notify::new(),
            random: Cell::new(random),
        }
    }

    /// Waits until a row may be tried.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub async fn turn(&self) -> Result<Turn<'_>, Closed> {
        if self.proven.get() && !self.closed.get() {
            return Ok(Turn(None));
        }
        self.turns
            .acquire()
            .await
            .map(|turn| Turn(Some(turn)))
            .map_err(|_| Closed)
    }

    /// Waits until a call may begin.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub async fn permit(&self) -> Result<Permit<'_>, Closed> {
        let permit = self.permits.acquire().await.map_err(|_| Closed)?;
        let turn = self.turnstile.lock().await;
        loop {
            if self.closed.get() {
                return Err(Closed);
            }
            if let Some(until) = self.paused_until.get() {
                if Instant::now() < until {
                    self.unless_closed(sleep_until(until)).await?;
                    continue;
                }
                self.paused_until.set(None);
            }
            match self.limiter.check() {
                Ok(()) => break,
                Err(wait) => self.unless_closed(sleep(wait)).await?,
            }
        }
        drop(turn);
        Ok(Permit {
            _permit: permit,
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
        if !self.proven.replace(true) {
            self.turns.add_permits(Semaphore::MAX_PERMITS - 1);
        }
        self.guesses.set(0);
    }

    /// Pauses all calls because the one that began at `began` was refused. Of many calls that were out together the
    /// first refusal counts; a later one only counts when it asks for more.
    pub fn pause(&self, asked: Option<Duration>, began: Instant) -> Option<Pause> {
        let now = Instant::now();
        let known = self.paused_until.get();
        let length = match asked {
            Some(asked) => asked.mul_f64(1.0 + PAUSE_JITTER * self.fraction()),
            // It was sent before the last pause was decided and says nothing new.
            None if known.is_some_and(|until| began < until) => return None,
            None => {
                let doublings = self.guesses.get();
                self.guesses.set(doublings.saturating_add(1));
                FIRST_GUESS
                    .saturating_mul(1 << doublings.min(6))
                    .min(LONGEST_GUESS)
            }
        };
        let until = now + length;
        if length.is_zero() || known.is_some_and(|known| known >= until) {
            return None;
        }
        self.paused_until.set(Some(until));
        Some(Pause {
            length,
            asked: asked.is_some(),
        })
    }

    /// Gives no permit any more and wakes everybody who waits for one.
    pub fn close(&self) {
        self.closed.set(true);
        self.turns.close();
        self.permits.close();
        self.closing.notify_waiters();
    }

    /// A random number from 0 up to 1, from the run's one source.
    pub fn fraction(&self) -> f64 {
        let mut random = self.random.replace(fastrand::Rng::with_seed(0));
        let fraction = random.f64();
        self.random.set(random);
        fraction
    }
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
    async fn one_row_at_a_time_until_the_first_verdict() {
        let gate = gate(3, "unlimited");
        let canary = at_once(gate.turn()).await.unwrap().unwrap();
        assert!(at_once(gate.turn()).await.is_none());
        drop(canary);
        let _next = at_once(gate.turn()).await.unwrap().unwrap();
        let waiting = gate.turn();
        gate.verdict_came();
        assert!(at_once(waiting).await.unwrap().is_ok());
        gate.verdict_came();
        assert!(at_once(gate.turn()).await.unwrap().is_ok());
        gate.close();
        assert!(gate.turn().await.is_err());
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
