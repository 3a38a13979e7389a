//! The gate that every attempt passes: who waits, and what wakes them.
//!
//! The controller says when a call may begin; here calls wait for that on tokio's clock, in turn. What a power cut can
//! bill twice is bounded here as well, and once the run stops nobody passes any more. Runs on one thread.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, sleep_until};

use super::calls::{Allowance, Bounds, Call, Change, Ended, Try, Turn};
use super::controller::Controller;
use super::row_refusals::{Calls, RowRefusals};
use crate::telemetry::event::{Limit, Pace};

/// Gives permits for attempts.
pub struct Gate {
    /// Whether there was a first verdict.
    proven: Cell<bool>,
    /// As many as calls may be in flight or have answers that are not durable yet: what a power cut can bill twice.
    unsettled: Semaphore,
    /// Whoever waits for the controller waits here in turn, so that one timer runs and not one a permit.
    turnstile: Mutex<()>,
    controller: RefCell<Controller>,
    /// Everybody's calls that were accepted and refused.
    calls: Cell<Calls>,
    /// Since when calls are refused and none is accepted.
    refused_since: Cell<Option<Duration>>,
    /// A call ended, so the one at the turnstile should ask again.
    changed: Notify,
    newcomers: Cell<Newcomers>,
    /// Nobody has to give way to them any more.
    way_is_free: Notify,
    /// The service has come to be taken to be down.
    down: Notify,
    began: Instant,
    told: Cell<Option<Pace>>,
    told_limit: Cell<Limit>,
    closed: Cell<bool>,
    closing: Notify,
    random: Cell<fastrand::Rng>,
}

/// Whether there are rows that have not asked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newcomers {
    /// One waits for its permit.
    Waiting,
    /// One may come.
    Possible,
    /// All have asked.
    None,
}

/// The right to make one attempt. Dropped before its call is over, it says nothing of the service.
pub(crate) struct Permit<'a> {
    gate: &'a Gate,
    call: Call,
    over: bool,
    unsettled: Option<SemaphorePermit<'a>>,
}

impl<'a> Permit<'a> {
    /// When the permit was given.
    #[must_use]
    pub(crate) fn began(&self) -> Instant {
        self.gate.began + self.call.began
    }

    /// Whether the service is taken to be down and this call finds out whether it is back.
    #[must_use]
    pub(crate) const fn is_probe(&self) -> bool {
        self.call.probe
    }

    /// The call of this row ended at `when`: another one may begin. What stays is to be dropped when its answer is durable.
    #[must_use]
    pub(crate) fn over(
        mut self,
        when: Instant,
        how: Ended,
        row: &mut RowRefusals,
    ) -> (Unsettled<'a>, Option<Change>) {
        let change = self.end(when, how, row);
        (Unsettled(self.unsettled.take()), change)
    }

    fn end(&mut self, when: Instant, how: Ended, row: &mut RowRefusals) -> Option<Change> {
        self.over = true;
        let (gate, now) = (self.gate, when - self.gate.began);
        let (tried, fraction) = match how {
            Ended::Throttled(_) => (gate.refused(now, row), gate.fraction()),
            Ended::Answered => {
                gate.accepted(self.call.began);
                (row.tried(), 0.0)
            }
            _ => (row.tried(), 0.0),
        };
        let change = gate
            .controller
            .borrow_mut()
            .ended(now, self.call, how, tried, fraction);
        gate.changed.notify_one();
        match change {
            Some(Change::Up { .. }) => gate.way_is_free.notify_waiters(),
            Some(Change::Down { lasted, .. }) if lasted.is_zero() => gate.down.notify_one(),
            _ => {}
        }
        change
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.end(
                Instant::now(),
                Ended::Abandoned,
                &mut RowRefusals::default(),
            );
        }
    }
}

/// A call whose answer is not durable yet, until it is dropped.
pub(crate) struct Unsettled<'a>(
    #[allow(dead_code, reason = "held, not read")] Option<SemaphorePermit<'a>>,
);

/// Calls in flight and answers that are not durable yet, as a multiple of the calls in flight: while one group of
/// answers is synced the next calls go on.
const UNSETTLED: usize = 2;

/// The run is stopping: no call may begin any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl Gate {
    /// A gate for calls within these bounds.
    #[must_use]
    pub fn new(bounds: Bounds, random: fastrand::Rng) -> Self {
        let unsettled = bounds.in_flight.get().saturating_mul(UNSETTLED);
        let controller = Controller::new(bounds);
        Self {
            proven: Cell::new(false),
            unsettled: Semaphore::new(unsettled.min(Semaphore::MAX_PERMITS)),
            turnstile: Mutex::new(()),
            told_limit: Cell::new(controller.limit()),
            controller: RefCell::new(controller),
            calls: Cell::default(),
            refused_since: Cell::new(None),
            changed: Notify::new(),
            newcomers: Cell::new(Newcomers::Possible),
            way_is_free: Notify::new(),
            down: Notify::new(),
            began: Instant::now(),
            told: Cell::new(None),
            closed: Cell::new(false),
            closing: Notify::new(),
            random: Cell::new(random),
        }
    }

    /// Whether the service has given a verdict yet. Until then one row is tried at a time (the canary): a wrong key or a
    /// service that is down must not get a call of every row.
    #[must_use]
    pub(crate) const fn is_proven(&self) -> bool {
        self.proven.get()
    }

    /// Waits until a call may begin. Dropped before, it has used up nothing.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub(crate) async fn permit(&self) -> Result<Permit<'_>, Closed> {
        loop {
            if let Some(permit) = self.pass(|| false).await? {
                return Ok(permit);
            }
        }
    }

    /// As [`Self::permit`], for a row of which a call has failed. While the service is down, a row that has not asked yet
    /// goes first: it says more of the service, and this one may need its attempts when the service is back.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub(crate) async fn permit_again(&self) -> Result<Permit<'_>, Closed> {
        let gives_way =
            || self.newcomers.get() == Newcomers::Waiting && self.controller.borrow().is_down();
        loop {
            while gives_way() && !self.closed.get() {
                self.unless_closed(self.way_is_free.notified()).await?;
            }
            if let Some(permit) = self.pass(gives_way).await? {
                return Ok(permit);
            }
        }
    }

    /// Waits in turn until a call may begin, or until this one has to give way.
    async fn pass(&self, gives_way: impl Fn() -> bool) -> Result<Option<Permit<'_>>, Closed> {
        let unsettled = self.unsettled.acquire().await.map_err(|_| Closed)?;
        let passing = self.turnstile.lock().await;
        let call = loop {
            if self.closed.get() {
                return Err(Closed);
            }
            if gives_way() {
                return Ok(None);
            }
            match self.ask() {
                Turn::Go(call) => break call,
                Turn::At(at) => {
                    let time = std::pin::pin!(sleep_until(self.began + at));
                    let changed = std::pin::pin!(self.changed.notified());
                    self.unless_closed(select(time, changed)).await?;
                }
                Turn::AfterAnother => self.unless_closed(self.changed.notified()).await?,
            }
        };
        drop(passing);
        Ok(Some(self.permit_for(call, unsettled)))
    }

    /// A permit, if nobody waits for one and a call may begin at once: of a fast service's calls nearly each, and then
    /// to wait would cost more than all the rest here.
    pub(crate) fn permit_at_once(&self) -> Option<Permit<'_>> {
        let unsettled = self.unsettled.try_acquire().ok()?;
        let _passing = self.turnstile.try_lock().ok()?;
        match self.ask() {
            Turn::Go(call) => Some(self.permit_for(call, unsettled)),
            Turn::At(_) | Turn::AfterAnother => None,
        }
    }

    /// A call that began at `began` was accepted.
    fn accepted(&self, began: Duration) {
        if self.refused_since.get().is_some_and(|since| began >= since) {
            self.refused_since.set(None);
        }
        let mut calls = self.calls.get();
        calls.accepted += 1;
        self.calls.set(calls);
    }

    /// A call of this row was refused. Which try that was.
    fn refused(&self, now: Duration, row: &mut RowRefusals) -> Try {
        let mut calls = self.calls.get();
        let tried = row.note(calls);
        if tried != Try::AgainAlone {
            calls.refused += 1;
            self.calls.set(calls);
            if self.refused_since.get().is_none() {
                self.refused_since.set(Some(now));
            }
        }
        tried
    }

    fn ask(&self) -> Turn {
        self.controller.borrow_mut().ask(self.began.elapsed())
    }

    const fn permit_for<'a>(&'a self, call: Call, unsettled: SemaphorePermit<'a>) -> Permit<'a> {
        Permit {
            gate: self,
            call,
            over: false,
            unsettled: Some(unsettled),
        }
    }

    /// Whether there are rows that have not asked yet.
    pub(crate) const fn newcomers(&self) -> Newcomers {
        self.newcomers.get()
    }

    /// Somebody knows whether there are rows that have not asked yet.
    pub(crate) fn set_newcomers(&self, newcomers: Newcomers) {
        if self.newcomers.replace(newcomers) == Newcomers::Waiting
            && newcomers != Newcomers::Waiting
        {
            self.way_is_free.notify_waiters();
        }
    }

    /// Whether the service is taken to be down.
    pub(crate) fn is_down(&self) -> bool {
        self.controller.borrow().is_down()
    }

    /// Waits until the service comes to be taken to be down.
    pub(crate) async fn goes_down(&self) {
        self.down.notified().await;
    }

    /// The service is not down, whatever it seemed: for how long it was taken to be.
    pub(crate) fn dismiss_outage(&self) -> Option<Duration> {
        let now = self.began.elapsed();
        let lasted = self.controller.borrow_mut().dismiss_outage(now);
        self.changed.notify_one();
        self.way_is_free.notify_waiters();
        lasted
    }

    /// Waits for a back-off; no permit is held meanwhile.
    ///
    /// # Errors
    /// [`Closed`] as soon as the run is stopping.
    pub(crate) async fn back_off(&self, length: Duration) -> Result<(), Closed> {
        if self.closed.get() {
            return Err(Closed);
        }
        self.unless_closed(sleep(length)).await
    }

    async fn unless_closed<T>(&self, wait: impl Future<Output = T>) -> Result<(), Closed> {
        let (wait, closing) = (
            std::pin::pin!(wait),
            std::pin::pin!(self.closing.notified()),
        );
        match select(wait, closing).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(Closed),
        }
    }

    /// The service gave a verdict: the canary has come back.
    pub(crate) fn verdict_came(&self) {
        self.proven.set(true);
    }

    /// An answer's headers said what is left of the service's quota.
    pub fn allowed(&self, allowance: Allowance) {
        self.controller
            .borrow_mut()
            .allowed(self.began.elapsed(), allowance);
    }

    /// For how long, up to `when`, calls have been refused and none of those that began since was accepted.
    pub(crate) fn refused_for(&self, when: Instant) -> Duration {
        let since = self.refused_since.get();
        since.map_or(Duration::ZERO, |since| {
            (when - self.began).saturating_sub(since)
        })
    }

    /// The pace at `when`, if it is another one than when this was asked last.
    pub fn new_pace(&self, when: Instant) -> Option<Pace> {
        let pace = Some(self.controller.borrow().pace(when - self.began));
        (self.told.replace(pace) != pace).then_some(pace).flatten()
    }

    /// The limit of the service that calls keep to.
    pub(crate) fn limit(&self) -> Limit {
        self.controller.borrow().limit()
    }

    /// That limit, if it is another one than when this was asked last, or when the run began.
    pub(crate) fn new_limit(&self) -> Option<Limit> {
        let limit = self.limit();
        (self.told_limit.replace(limit) != limit).then_some(limit)
    }

    /// Gives no permit any more and wakes everybody who waits for one.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.unsettled.close();
        self.closing.notify_waiters();
    }

    /// Whether the run is stopping.
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// A random number from 0 up to 1, from the run's one source.
    pub(crate) fn fraction(&self) -> f64 {
        let mut random = self.random.replace(fastrand::Rng::with_seed(0));
        let fraction = random.f64();
        self.random.set(random);
        fraction
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn gate(in_flight: usize, rate: &str) -> Gate {
        let bounds = Bounds {
            rate: rate.parse().unwrap(),
            in_flight: in_flight.try_into().unwrap(),
            known: Limit::NONE,
            outage: Duration::from_secs(900),
        };
        Gate::new(bounds, fastrand::Rng::with_seed(7))
    }

    async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
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
        let answered = || async {
            let permit = at_once(gate.permit()).await.unwrap().unwrap();
            permit
                .over(Instant::now(), Ended::Answered, &mut RowRefusals::default())
                .0
        };
        let first = answered().await;
        let _second = answered().await;
        let _third = at_once(gate.permit()).await.unwrap();
        let _fourth = answered().await;
        assert!(at_once(gate.permit()).await.is_none());
        drop(first);
        assert!(at_once(gate.permit()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_everybody_and_then_one_goes_first() {
        let gate = gate(4, "unlimited");
        let asked = Some(Duration::from_secs(30));
        let permit = gate.permit().await.unwrap();
        let began = Instant::now();
        let (_, change) = permit.over(
            Instant::now(),
            Ended::Throttled(asked),
            &mut RowRefusals::default(),
        );
        let Some(Change::Paused(pause)) = change else {
            panic!("{change:?}");
        };
        assert!((30.0..=33.0).contains(&pause.length.as_secs_f64()));
        let scout = gate.permit().await.unwrap();
        assert!(scout.began() - began >= pause.length);
        assert!(at_once(gate.permit()).await.is_none());
        drop(scout.over(Instant::now(), Ended::Answered, &mut RowRefusals::default()));
        let _second = gate.permit().await.unwrap();
        let _third = gate.permit().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_call_to_end_is_woken_by_it() {
        let gate = gate(1, "unlimited");
        let first = gate.permit().await.unwrap();
        let (second, ()) = tokio::join!(gate.permit(), async {
            sleep(Duration::from_secs(1)).await;
            drop(first.over(Instant::now(), Ended::Answered, &mut RowRefusals::default()));
        });
        assert!(second.is_ok());
        assert_eq!(gate.began.elapsed(), Duration::from_secs(1));
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
