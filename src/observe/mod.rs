//! What people and programs see of a run while it goes on and when it is over.
//!
//! Everything here folds events or looks at [`Stats`]; nothing here counts, and no stage knows of it. A thread of its
//! own draws, so that a slow terminal never holds up a call.

mod bar;
mod kept;
mod lines;
mod matrix;
mod reason;
mod screen;
mod snapshot;
mod summary;
mod words;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use kept::Kept;
pub(crate) use summary::Summary;
pub(crate) use words::{answers, count, counted, day, moment, most, same_command};

use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, Event, Unusable};
use crate::telemetry::hub::{Events, Observer};
use crate::telemetry::pace::Pause;
use crate::telemetry::stats::Stats;
use snapshot::{Recent, Snapshot};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A bar that is drawn over.
    Bar,
    /// A line every so often.
    Plain,
    /// A JSON object every so often.
    Json,
    /// Nothing but warnings.
    Off,
}

impl Style {
    /// A bar where somebody looks and a bar can be drawn over, lines elsewhere.
    #[must_use]
    pub(crate) fn automatic() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        if std::io::stderr().is_terminal() && !dumb {
            Self::Bar
        } else {
            Self::Plain
        }
    }
}

/// What is known of a run besides its numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// How progress is shown.
    pub(crate) style: Style,
    /// Time between lines.
    pub(crate) every: Duration,
    /// The source's size in bytes, where it has one.
    pub(crate) size: Option<u64>,
    /// The stand-in answers, not the service: said wherever numbers are shown.
    pub(crate) sandbox: bool,
    /// Calls that may be in flight in any case.
    pub(crate) concurrency: usize,
}

/// Something that should be said at once, not with the next line.
#[derive(Debug, Clone)]
enum Notice {
    Paused(Pause),
    /// The service is down: how long until the next try.
    Down(Duration),
    /// It is back, after so long.
    Up(Duration),
    /// It was not down.
    Dismissed,
    KeyRenewed,
    /// A warning: it is said in any style.
    TransactionRepeated(RowNumber, RowNumber),
    /// A warning, as that.
    ManyRefused(u32),
    /// A warning, as that.
    FieldsAbsent(u32, Arc<str>),
    /// A warning, as that.
    Unusable(Unusable),
    /// Why, how many calls finish, and how long they may take.
    Stopping(CancelReason, u64, Duration),
    End,
}

/// An observer that passes on what should be said at once.
pub(crate) struct Notices(Sender<Notice>);

/// Where [`Notices`] arrive.
pub(crate) struct Inbox(Receiver<Notice>);

/// An observer and the place where its notices arrive.
#[must_use]
pub(crate) fn notices() -> (Notices, Inbox) {
    let (sender, receiver) = channel();
    (Notices(sender), Inbox(receiver))
}

impl Notice {
    /// The words of a warning, which is said in any style.
    fn warning(self) -> Option<String> {
        match self {
            Self::TransactionRepeated(one, other) => Some(words::repeated(one, other)),
            Self::ManyRefused(rows) => Some(words::many_refused(rows)),
            Self::FieldsAbsent(answers, fields) => Some(words::fields_absent(answers, &fields)),
            Self::Unusable(why) => Some(words::unusable(why).to_owned()),
            _ => None,
        }
    }
}

impl Notices {
    /// A further way to the same inbox.
    fn clone_sender(&self) -> Sender<Notice> {
        self.0.clone()
    }

    /// A handle that ends the progress when asked.
    #[must_use]
    pub(crate) fn ender(&self) -> Ender {
        Ender(self.clone_sender())
    }
}

/// Ends the progress.
pub(crate) struct Ender(Sender<Notice>);

impl Observer for Notices {
    fn observe(&mut self, _: Duration, event: &Event, stats: &Stats) {
        let notice = match event {
            Event::Throttled {
                pause: Some(pause), ..
            } => Notice::Paused(*pause),
            // Told once; further tries stand in the next line.
            Event::ServiceDown { lasted, next, .. } if lasted.is_zero() => Notice::Down(*next),
            Event::ServiceUp { lasted } => Notice::Up(*lasted),
            Event::OutageDismissed { .. } => Notice::Dismissed,
            Event::KeyRenewed => Notice::KeyRenewed,
            // Once: a cache that is broken for one is broken for many.
            Event::TransactionRepeated { row, first } if stats.repeated_transactions == 1 => {
                Notice::TransactionRepeated(*row.min(first), *row.max(first))
            }
            Event::ManyRefused { rows } => Notice::ManyRefused(*rows),
            Event::FieldsAbsent { answers, fields } => {
                Notice::FieldsAbsent(*answers, Arc::clone(fields))
            }
            // Once for each reason; the summary counts them.
            Event::AnswerUnusable {
                why: Unusable::Damaged,
                ..
            } if stats.damaged_answers == 1 => Notice::Unusable(Unusable::Damaged),
            Event::AnswerUnusable {
                why: Unusable::FromTheFuture,
                ..
            } if stats.future_answers == 1 => Notice::Unusable(Unusable::FromTheFuture),
            Event::CancelBegan(reason) if stats.in_flight == 0 => {
                Notice::Stopping(*reason, 0, Duration::ZERO)
            }
            Event::DrainBegan { reason, longest } => {
                Notice::Stopping(*reason, stats.in_flight, *longest)
            }
            _ => return,
        };
        // Nobody listens any more: the run is over.
        let _ = self.0.send(notice);
    }
}

/// The thread that draws.
pub(crate) struct Progress {
    /// `None` where there is no thread to spare.
    thread: Option<JoinHandle<()>>,
    ender: Ender,
}

/// Ten times a second looks live and costs nothing.
const FRAME: Duration = Duration::from_millis(100);

impl Progress {
    /// Starts to draw.
    #[must_use]
    pub(crate) fn start(setting: Setting, events: Events, inbox: Inbox, ender: Ender) -> Self {
        let thread = std::thread::Builder::new().name("progress".to_owned());
        // Without a thread to spare the run goes on unseen.
        let thread = thread.spawn(move || draw(setting, &events, &inbox.0)).ok();
        Self { thread, ender }
    }

    /// Draws for the last time and leaves the terminal clean.
    pub(crate) fn finish(self) {
        let _ = self.ender.0.send(Notice::End);
        // It waits for nobody but us: see `say`.
        let _ = self.thread.map(JoinHandle::join);
    }
}

fn draw(setting: Setting, events: &Events, inbox: &Receiver<Notice>) {
    let mut view: Box<dyn View> = match setting.style {
        Style::Bar => Box::new(bar::Bar::new(setting)),
        Style::Plain => Box::new(lines::Plain::new(setting)),
        Style::Json => Box::new(lines::Json::new(setting)),
        Style::Off => Box::new(lines::Warnings),
    };
    let every = if setting.style == Style::Bar {
        FRAME
    } else {
        setting.every
    };
    let mut recent = Recent::default();
    let mut next = events.elapsed() + every;
    loop {
        match inbox.recv_timeout(next.saturating_sub(events.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {
                view.frame(&Snapshot::take(events, setting.size, &mut recent));
                // Not `+=`: after a sleep all missed frames would come at once.
                next = events.elapsed() + every;
            }
            Ok(Notice::End) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(notice) => {
                view.notice(notice, &Snapshot::take(events, setting.size, &mut recent));
            }
        }
    }
    view.end();
}

/// Somebody who shows progress.
trait View {
    fn frame(&mut self, now: &Snapshot);
    fn notice(&mut self, notice: Notice, now: &Snapshot);
    fn end(&mut self);
}
