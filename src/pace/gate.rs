//! The gate that every call passes: who waits for a permit, and what wakes them.
//!
//! The controller decides when a call may start; here calls wait for that on tokio's clock, one after the other. The gate
//! also limits the calls that a power cut can bill twice, and it lets no call through once the run stops. It runs on one thread.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::pending;
use std::sync::mpsc::Sender;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, sleep_until};

use super::controller::Controller;
use super::retry::{CallCounts, RowRefusals};
use super::shared::{PaceAsk, PaceReply};
use super::types::{Admission, Allowance, Call, CallSignal, PaceEvent, PaceLimits, whole};
use crate::telemetry::pace::{FoundLimit, Pace, PaceCause, PaceChange};

/// Gives permits for calls.
pub struct Gate {
    /// Whether there was a first verdict.
    proven: Cell<bool>,
    /// One permit for each call that is in flight or whose answer is not durable yet: a power cut can bill these twice.
    undurable: Semaphore,
    /// Only the first in this queue waits for the controller, so that one timer runs and not one per row.
    queue: Mutex<()>,
    controller: RefCell<Controller>,
    /// All calls that were accepted and refused.
    counts: RefCell<CallCounts>,
    /// How many pauses of all calls there were since a call was last accepted.
    pauses_in_a_row: Cell<usize>,
    /// A call ended, so the first in the queue should ask again.
    changed: Notify,
    fresh_rows: Cell<FreshRows>,
    /// Rows that were tried before may not have to give way to fresh ones any more.
    is_clear: Notify,
    /// The service is taken to be down from now on, or refuses the first row: another row may show more.
    first_row_held_up: Notify,
    began: Instant,
    last_pace: Cell<Option<Pace>>,
    last_limit: Cell<FoundLimit>,
    closing: Notify,
    /// The store of the pace, if runs share it.
    store: Mutex<Option<PaceStore>>,
    /// A call has just ended that the store may have to know of.
    asks_soon: Notify,
    random: RefCell<fastrand::Rng>,
}

/// The store of a pace that runs share, which answers questions.
pub(crate) struct PaceStore {
    /// Takes questions, one at a time.
    pub(crate) asks: Sender<PaceAsk>,
    /// Has the reply to each.
    pub(crate) replies: UnboundedReceiver<PaceReply>,
}

/// Whether there are rows that were never tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreshRows {
    /// One waits for its permit.
    Waiting,
    /// None waits, but more may come.
    Possible,
    /// Every row was tried.
    None,
}

/// The right to make one call. If it is dropped before its call has ended, that says nothing about the service.
pub(crate) struct Permit<'a> {
    gate: &'a Gate,
    call: Call,
    undurable: Undurable<'a>,
}

impl<'a> Permit<'a> {
    /// When the permit was given.
    pub(crate) fn began(&self) -> Instant {
        self.gate.began + self.call.began
    }

    /// Whether this call is a probe that finds out if a service that is taken to be down is back.
    pub(crate) const fn is_probe(&self) -> bool {
        self.call.in_outage
    }

    /// The call of this row ended at `when`, so another one may start. Drop the [`Undurable`] once the answer is durable.
    pub(crate) fn finish(
        mut self,
        when: Instant,
        signal: CallSignal,
        row: &mut RowRefusals,
    ) -> (Undurable<'a>, Option<PaceEvent>) {
        let event = self.end(when, signal, row);
        (self.undurable.take(), event)
    }

    fn end(
        &mut self,
        when: Instant,
        signal: CallSignal,
        row: &mut RowRefusals,
    ) -> Option<PaceEvent> {
        let (gate, now) = (self.gate, when - self.gate.began);
        let (is_about_row, fraction) = match signal {
            CallSignal::Throttled(_) | CallSignal::BusyOrAway => {
                (gate.counts.borrow_mut().refuse(row), gate.fraction())
            }
            _ => (false, 0.0),
        };
        let mut controller = gate.controller.borrow_mut();
        let event = controller.call_ended(now, self.call, signal, is_about_row, fraction);
        if signal == CallSignal::Answered {
            if controller.without_success_for(now).is_zero() {
                gate.pauses_in_a_row.set(0);
            }
            gate.counts.borrow_mut().accept();
            gate.is_clear.notify_waiters();
        }
        gate.changed.notify_one();
        gate.asks_soon.notify_one();
        match event {
            Some(PaceEvent::Paused(_)) => {
                gate.pauses_in_a_row.update(|pauses| pauses + 1);
                gate.first_row_held_up.notify_one();
            }
            Some(PaceEvent::Up { .. }) => gate.is_clear.notify_waiters(),
            Some(PaceEvent::Down { lasted, .. }) if lasted.is_zero() => {
                gate.first_row_held_up.notify_one();
            }
            _ => {}
        }
        event
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // `finish` has taken it from a permit whose call has ended.
        if self.undurable.is_some() {
            let row = &mut RowRefusals::default();
            self.end(Instant::now(), CallSignal::Abandoned, row);
        }
    }
}

/// Counts a call whose answer is not durable yet, until this is dropped.
pub(crate) type Undurable<'a> = Option<SemaphorePermit<'a>>;

/// Calls in flight and answers that are not durable yet, as a multiple of the calls in flight: calls continue while a group
/// of answers is being synced.
const UNDURABLE_PER_CALL: usize = 2;

/// At a limited pace, the requests of the calls within this time are claimed together.
const CLAIMED_AHEAD: Duration = Duration::from_millis(100);

/// After this number of pauses for each row that was tried, another one is tried. With fewer, a limit that was just used up would
/// send a second person's data for nothing.
const PAUSES_PER_ROW: usize = 2;

/// The run is stopping: no call may start any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl Gate {
    /// A gate for calls within these limits.
    pub fn new(limits: PaceLimits, random: fastrand::Rng) -> Self {
        let controller = Controller::new(&limits);
        let undurable = limits.in_flight.get().saturating_mul(UNDURABLE_PER_CALL);
        Self {
            proven: Cell::new(false),
            undurable: Semaphore::new(undurable.min(Semaphore::MAX_PERMITS)),
            queue: Mutex::new(()),
            last_limit: Cell::new(controller.value.limit()),
            controller: RefCell::new(controller),
            counts: RefCell::default(),
            pauses_in_a_row: Cell::new(0),
            changed: Notify::new(),
            fresh_rows: Cell::new(FreshRows::Possible),
            is_clear: Notify::new(),
            first_row_held_up: Notify::new(),
            began: Instant::now(),
            last_pace: Cell::new(None),
            closing: Notify::new(),
            store: Mutex::new(None),
            asks_soon: Notify::new(),
            random: RefCell::new(random),
        }
    }

    /// A gate at a pace that is shared through this store, while [`Self::share`] runs.
    pub(crate) fn sharing(mut self, store: PaceStore) -> Self {
        let name = format!("{:016x}", self.random.get_mut().u64(..));
        self.controller.get_mut().share(name);
        self.store = Mutex::new(Some(store));
        self
    }

    /// Exchanges reports and replies with the store of a shared pace, for ever. It can be dropped and started again.
    pub(crate) async fn share(&self) -> Infallible {
        let mut store = self.store.lock().await;
        while let Some(PaceStore { asks, replies }) = &mut *store {
            let asks_at = || self.controller.borrow().asks_at();
            if let Some(at) = asks_at() {
                let time = std::pin::pin!(sleep_until(self.began + at));
                let soon = std::pin::pin!(self.asks_soon.notified());
                select(time, soon).await;
                let now = self.began.elapsed();
                if asks_at().is_some_and(|at| at > now) {
                    continue;
                }
                let random = self.fraction();
                let ask = self.controller.borrow_mut().ask(now, random);
                // The thread that asks has ended, and has stopped the run.
                if ask.is_none_or(|ask| asks.send(ask).is_err()) {
                    break;
                }
            }
            let Some(reply) = replies.recv().await else {
                break;
            };
            let (random, now) = (self.fraction(), self.began.elapsed());
            self.controller.borrow_mut().replied(now, reply, random);
            self.changed.notify_one();
        }
        pending().await
    }

    /// Whether the service has shown that it does its work. Until then one row at a time is tried as a probe: with a wrong
    /// key, or a service that is down, not every row may be sent.
    pub(crate) const fn is_proven(&self) -> bool {
        self.proven.get()
    }

    /// Waits until a call may start. If it is dropped before, nothing is used up.
    ///
    /// # Errors
    /// [`Closed`] once the run is stopping.
    pub(crate) async fn permit(&self) -> Result<Permit<'_>, Closed> {
        loop {
            if let Some(permit) = self.pass(|| false).await? {
                return Ok(permit);
            }
        }
    }

    /// Like [`Self::permit`], for a row whose call has failed or was refused. While the service is down, untried rows
    /// go first: they tell us more, and retried rows keep their retries. They also go first after a refusal until others
    /// are accepted: only then does another refusal of this row show anything.
    ///
    /// # Errors
    /// [`Closed`] once the run is stopping.
    pub(crate) async fn permit_again(&self, row: &RowRefusals) -> Result<Permit<'_>, Closed> {
        let is_held_up = || self.is_down() || !self.counts.borrow().others_pass(row);
        let gives_way = || self.fresh_rows.get() == FreshRows::Waiting && is_held_up();
        loop {
            while gives_way() && !self.is_closed() {
                self.unless_closed(self.is_clear.notified()).await?;
            }
            if let Some(permit) = self.pass(gives_way).await? {
                return Ok(permit);
            }
        }
    }

    /// Waits in the queue until a call may start, or returns `None` if this one has to give way.
    async fn pass(&self, gives_way: impl Fn() -> bool) -> Result<Option<Permit<'_>>, Closed> {
        let undurable = self.undurable.acquire().await.map_err(|_| Closed)?;
        let first = self.queue.lock().await;
        let call = loop {
            if self.is_closed() {
                return Err(Closed);
            }
            if gives_way() {
                return Ok(None);
            }
            match self.admit() {
                Admission::Admitted(call) => break call,
                Admission::NotBefore(at) => {
                    let time = std::pin::pin!(sleep_until(self.began + at));
                    let changed = std::pin::pin!(self.changed.notified());
                    self.unless_closed(select(time, changed)).await?;
                }
                Admission::OnChange => self.unless_closed(self.changed.notified()).await?,
            }
        };
        drop(first);
        Ok(Some(self.permit_for(call, undurable)))
    }

    /// A permit, if no row waits for one and a call may start now. With a fast service that is nearly always so, and waiting
    /// would cost more than everything else here.
    pub(crate) fn try_permit(&self) -> Option<Permit<'_>> {
        let undurable = self.undurable.try_acquire().ok()?;
        let _first = self.queue.try_lock().ok()?;
        match self.admit() {
            Admission::Admitted(call) => Some(self.permit_for(call, undurable)),
            Admission::NotBefore(_) | Admission::OnChange => None,
        }
    }

    /// How many requests should be claimed: for the calls that may start now, and for `soon` further ones, which start while
    /// others are being claimed; one while rows are tried one at a time. After a kill, each counts as perhaps billed.
    pub(crate) fn calls_ahead(&self, soon: usize) -> usize {
        let controller = self.controller.borrow();
        if !self.proven.get() || controller.is_down() {
            return 1;
        }
        let most = 2 * controller.most_in_flight().max(1);
        let rate = controller.rate(self.began.elapsed());
        let paced = rate.map_or(most, |rate| {
            whole((rate * CLAIMED_AHEAD.as_secs_f64()).ceil()) as usize
        });
        (controller.free() + soon).min(paced).clamp(1, most)
    }

    fn admit(&self) -> Admission {
        self.controller.borrow_mut().admit(self.began.elapsed())
    }

    const fn permit_for<'a>(&'a self, call: Call, undurable: SemaphorePermit<'a>) -> Permit<'a> {
        Permit {
            gate: self,
            call,
            undurable: Some(undurable),
        }
    }

    /// Whether there are rows that were never tried.
    pub(crate) const fn fresh_rows(&self) -> FreshRows {
        self.fresh_rows.get()
    }

    /// Sets whether there are rows that were never tried.
    pub(crate) fn set_fresh_rows(&self, fresh_rows: FreshRows) {
        if self.fresh_rows.replace(fresh_rows) == FreshRows::Waiting
            && fresh_rows != FreshRows::Waiting
        {
            self.is_clear.notify_waiters();
        }
    }

    /// Whether the service is taken to be down.
    pub(crate) fn is_down(&self) -> bool {
        self.controller.borrow().is_down()
    }

    /// Waits until the service is taken to be down, or has refused the first row again.
    pub(crate) async fn first_row_is_held_up(&self) {
        self.first_row_held_up.notified().await;
    }

    /// Whether nothing was accepted and these rows have been refused often enough that another one may show more: the service may
    /// refuse just these rows, whatever the pace. Only pauses count, as each is followed by one probe. Without pauses, as
    /// with no rate limit, every refused row would bring another one.
    pub(crate) const fn refuses_all(&self, rows: usize) -> bool {
        self.pauses_in_a_row.get() >= rows * PAUSES_PER_ROW
    }

    /// The service is not down, although it seemed so. Returns for how long it was taken to be.
    pub(crate) fn dismiss_outage(&self) -> Option<Duration> {
        let now = self.began.elapsed();
        let lasted = self.controller.borrow_mut().dismiss_outage(now);
        self.changed.notify_one();
        self.is_clear.notify_waiters();
        lasted
    }

    /// Waits for a back-off. No permit is held meanwhile.
    ///
    /// # Errors
    /// [`Closed`] once the run is stopping.
    pub(crate) async fn back_off(&self, length: Duration) -> Result<(), Closed> {
        if self.is_closed() {
            return Err(Closed);
        }
        self.unless_closed(sleep(length)).await
    }

    async fn unless_closed<T>(&self, wait: impl Future<Output = T>) -> Result<(), Closed> {
        let wait = std::pin::pin!(wait);
        let closing = std::pin::pin!(self.closing.notified());
        match select(wait, closing).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(Closed),
        }
    }

    /// The service does its work: the probe has its verdict.
    pub(crate) fn service_works(&self) {
        self.proven.set(true);
    }

    /// The headers of an answer name the rest of the service's quota.
    pub fn allowed(&self, allowance: Allowance) {
        let mut controller = self.controller.borrow_mut();
        controller.allowed(self.began.elapsed(), allowance);
    }

    /// For how long, up to `when`, calls have been refused or have failed without any call that started since being accepted.
    pub(crate) fn without_success_for(&self, when: Instant) -> Duration {
        self.controller
            .borrow()
            .without_success_for(when - self.began)
    }

    /// The pace at `when`, if it has changed since the last time this was asked.
    pub fn new_pace(&self, when: Instant) -> Option<PaceChange> {
        let mut controller = self.controller.borrow_mut();
        let now = controller.seconds(when - self.began);
        let (pace, cause) = (controller.value.pace(now), controller.value.take_cause());
        let last = self.last_pace.replace(Some(pace));
        let cause = if last.is_some() {
            cause
        } else {
            PaceCause::Start
        };
        (last != Some(pace)).then_some(PaceChange { pace, cause })
    }

    /// The limit of the service that was found.
    pub(crate) fn limit(&self) -> FoundLimit {
        self.controller.borrow().value.limit()
    }

    /// That limit, if it has changed since the last time this was asked, or since the run started.
    pub(crate) fn new_limit(&self) -> Option<FoundLimit> {
        let limit = self.limit();
        (self.last_limit.replace(limit) != limit).then_some(limit)
    }

    /// Gives no more permits, and wakes all who wait for one.
    pub(crate) fn close(&self) {
        self.undurable.close();
        self.closing.notify_waiters();
    }

    /// Whether the run is stopping.
    pub(crate) fn is_closed(&self) -> bool {
        self.undurable.is_closed()
    }

    /// A random number from 0 up to 1, from the run's one source.
    pub(crate) fn fraction(&self) -> f64 {
        self.random.borrow_mut().f64()
    }
}
