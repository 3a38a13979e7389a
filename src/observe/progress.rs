//! Progress while a run lasts: a thread that shows a bar, lines or JSON objects at intervals, and what should not wait for the
//! next one, such as warnings and pauses, as it happens.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use super::bar::picture;
use super::messages::{speaks_json, warn};
use super::numbers::{
    count, counted, now_in_local_time, one_line, parts, rate, time, verdicts, whole_seconds,
};
pub(crate) use super::snapshot::ProgressSettings;
use super::snapshot::{Now, RecentProgress, Snapshot, down, paused};
use super::summary::RunIdentity;
use crate::base::stderr::{columns, draw, say, say_progress};
use crate::row::RowNumber;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, Event, PassedOver};
use crate::telemetry::hub::{Events, Observer};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The one of the next two that fits.
    Auto,
    /// A bar that is redrawn in place.
    Bar,
    /// A line at intervals.
    Plain,
    /// A JSON object at intervals.
    Json,
    /// Nothing but warnings.
    Off,
}

impl Style {
    /// What `auto` means here: a bar on a terminal that can redraw, lines everywhere else. If the rows go to the terminal too,
    /// there is never a bar: it would be drawn over them.
    pub(crate) fn chosen(self, rows_on_terminal: bool) -> Self {
        let dumb = || std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        let redraws = || std::io::stderr().is_terminal() && !dumb();
        match self {
            Self::Auto if redraws() && !rows_on_terminal => Self::Bar,
            Self::Auto => Self::Plain,
            Self::Bar if rows_on_terminal => Self::Plain,
            given => given,
        }
    }
}

/// Ten pictures a second look live and cost next to nothing.
const FRAME: Duration = Duration::from_millis(100);
/// The first line comes early: it shows that the run works.
const FIRST_LINE: Duration = Duration::from_secs(3);
const LINES: Duration = Duration::from_secs(10);

/// The thread that shows progress.
pub(crate) struct ProgressThread {
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
    ender: Sender<Notice>,
}

impl ProgressThread {
    /// Starts to show progress. A run whose thread cannot be started continues without it.
    pub(crate) fn start(style: Style, settings: ProgressSettings, events: Events) -> Self {
        let (ender, notices) = channel();
        events.add_observer(Notices {
            to: ender.clone(),
            files: settings.files.clone(),
        });
        let mut view = View {
            style,
            settings,
            wait_shown: false,
        };
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || view.show(&events, &notices)).ok();
        Self { thread, ender }
    }

    /// A function that asks for a line of progress now, in any style, also if progress is off. It returns false once progress has
    /// ended.
    pub(crate) fn asker(&self) -> impl Fn() -> bool + Send + use<> {
        let to = self.ender.clone();
        move || to.send(Notice::Asked).is_ok()
    }

    /// Ends the progress and leaves the terminal clean.
    pub(crate) fn finish(self) {
        // Without a receiver, the progress has ended already.
        let _ = self.ender.send(Notice::End);
        // The thread does not wait for the terminal: see `stderr`.
        let _ = self.thread.map(JoinHandle::join);
    }
}

/// Shows progress.
struct View {
    style: Style,
    settings: ProgressSettings,
    /// A pause was shown since the last line. A service that refuses a call every second must not fill a log: the next line
    /// shows the other pauses.
    wait_shown: bool,
}

impl View {
    fn show(&mut self, events: &Events, notices: &Receiver<Notice>) {
        let (first, every) = match self.style {
            Style::Bar => (FRAME, FRAME),
            _ => (FIRST_LINE, LINES),
        };
        let mut recent = RecentProgress::default();
        let mut next = events.elapsed() + first;
        loop {
            let heard = notices.recv_timeout(next.saturating_sub(events.elapsed()));
            let mut now = || Snapshot::take(events, &self.settings, &mut recent);
            match heard {
                Err(RecvTimeoutError::Timeout) => {
                    let now = now();
                    self.frame(&now);
                    // Not `+=`: after the machine has slept, all missed frames would come in a burst.
                    next = events.elapsed() + every;
                }
                Ok(Notice::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(notice) => {
                    let now = now();
                    self.notice(&notice, &now);
                }
            }
        }
        if self.style == Style::Bar {
            draw(&[]);
        }
    }

    /// Shows the numbers of this moment.
    fn frame(&mut self, now: &Snapshot) {
        self.wait_shown = false;
        match self.style {
            Style::Bar => {
                let share = now.now.percent.map(|percent| percent / 100.0);
                draw(&picture(share, self.words(now), columns()));
            }
            Style::Plain | Style::Json => say_progress(&self.line(now)),
            Style::Auto | Style::Off => {}
        }
    }

    /// The numbers of this moment as a line, in the form of all messages.
    fn line(&self, now: &Snapshot) -> String {
        if speaks_json() {
            return self.json(now);
        }
        let [head, below] = self.words(now);
        let parts: Vec<_> = [head.join(", ")].into_iter().chain(below).collect();
        with_time(&parts.join("; "))
    }

    /// Shows what should not wait for the next frame.
    fn notice(&mut self, notice: &Notice, now: &Snapshot) {
        match (self.style, notice) {
            (_, Notice::Warning(words)) => warn(words),
            (_, Notice::Asked) => say_progress(&self.line(now)),
            (Style::Json, _) => say(&self.json(now)),
            (Style::Plain, Notice::Wait(_)) if self.wait_shown => {}
            (Style::Plain, Notice::Said(words) | Notice::Wait(words)) => {
                self.wait_shown |= matches!(notice, Notice::Wait(_));
                say(&with_time(words));
            }
            (Style::Bar, Notice::Said(words)) => say(&format!("rescore: {words}")),
            // The bar itself counts down.
            (Style::Auto | Style::Bar | Style::Off | Style::Plain, _) => {}
        }
    }

    /// How far the run is, and below that why calls wait and what they brought.
    fn words(
        &self,
        Snapshot {
            counts,
            now,
            reasons,
        }: &Snapshot,
    ) -> [Vec<String>; 2] {
        let (is_sandbox, expected) = (
            self.settings.identity.sandbox,
            self.settings.identity.expected.as_ref(),
        );
        // `file 3 of 64`, once there is a first file of several.
        let file = now.file.filter(|file| *file > 0).zip(now.files);
        let head = [
            // In a long run, one percent takes hours.
            { now.percent }.map(|percent| format!("{:.1}%", (percent * 10.0).floor() / 10.0)),
            file.map(|(file, files)| format!("file {} of {}", count(file), count(files))),
            Some(match expected {
                Some(expected) => {
                    let rows = counted(expected.rows, "row");
                    format!("{} of {rows}", count(counts.rows.resolved))
                }
                None => counted(counts.rows.resolved, "row"),
            }),
            { now.remaining }.map(|left| format!("ETA {}", whole_seconds(left))),
            is_sandbox.then(|| "sandbox".to_owned()),
            { now.rows_per_second }.map(|speed| format!("{} rows/s", rate(speed))),
        ];
        // A stand-in sends no bill.
        let would_have = if is_sandbox { "would have " } else { "" };
        let (calls, undecided) = (&counts.calls, counts.undecided.rows);
        let below = [
            counts.cost.as_ref().map(|cost| {
                let about = expected.and_then(|expected| expected.cost);
                let about = about.map(|about| format!(" of about {}", cost.tariff.display(about)));
                let spent = cost.tariff.display(cost.spent);
                format!("{would_have}spent {spent}{}", about.unwrap_or_default())
            }),
            verdicts(&counts.decisions, undecided, counts.failed.rows),
            parts([
                ("in flight", calls.in_flight),
                ("retries", calls.retries),
                ("throttled", calls.throttled),
            ]),
        ];
        let below = reasons.iter().cloned().chain(below.into_iter().flatten());
        [head.into_iter().flatten().collect(), below.collect()]
    }

    /// Progress for programs: the counts that the summary has as well, and the moment.
    fn json(&self, Snapshot { counts, now, .. }: &Snapshot) -> String {
        #[derive(Serialize)]
        struct ProgressLine<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            identity: &'a RunIdentity,
            #[serde(flatten)]
            counts: &'a Counts,
            now: &'a Now,
        }
        one_line(&ProgressLine {
            r#type: match counts.cancelled {
                Some(_) => "stopping",
                None => "progress",
            },
            identity: &self.settings.identity,
            counts,
            now,
        })
    }
}

/// A line with the time in front, for a log.
fn with_time(words: &str) -> String {
    format!("{} rescore: {words}", now_in_local_time())
}

/// Something to show now, not with the next line.
#[derive(Debug)]
enum Notice {
    /// Shown in every style.
    Warning(String),
    /// A line of progress.
    Asked,
    /// All calls wait from now on.
    Wait(String),
    /// Something else that happened.
    Said(String),
    /// The run is over.
    End,
}

/// The observer that sends notices.
struct Notices {
    to: Sender<Notice>,
    /// The names of the files in their order, where there are several.
    files: Vec<String>,
}

impl Observer for Notices {
    fn observe(&mut self, at: Duration, event: &Event, counts: &Counts) {
        let warning = || self.warning(event, counts).map(Notice::Warning);
        if let Some(notice) = happened(at, event, counts).or_else(warning) {
            // Without a receiver, the run is over.
            let _ = self.to.send(notice);
        }
    }
}

/// The service is waited for at the start.
const NOT_UP: &str = "the service cannot be reached: it is tried again, at first every few seconds, for as long as \
    `--max-wait` says; Ctrl-C stops";

/// The notice about an event that people should hear of at once.
fn happened(at: Duration, event: &Event, counts: &Counts) -> Option<Notice> {
    let in_flight = counts.calls.in_flight;
    Some(Notice::Said(match event {
        Event::CallsPaused { pause, by } => {
            return Some(Notice::Wait(paused(pause.length, *pause, by)));
        }
        // Only once for each outage; later tries appear in the next line.
        Event::ServiceDown { lasted, why, .. } if lasted.is_zero() => {
            if counts.calls.answered == 0 {
                format!("{why}: {NOT_UP}")
            } else {
                let words = down(counts.state.outage.as_ref()?, at).join("; ");
                return Some(Notice::Wait(words));
            }
        }
        Event::ServiceUp { lasted } => {
            let lasted = time(*lasted);
            format!("the service is back after {lasted}; continuing at half the pace")
        }
        Event::OutageDismissed { .. } => {
            "not an outage: the service answers, but fails on every row that is tried".to_owned()
        }
        Event::KeyRenewed => "a new API key was read from its file; continuing with it".to_owned(),
        Event::LimitReached(reason) => {
            let reason = reason.words();
            format!("{reason}: continuing with the answers that are known")
        }
        Event::CancelBegan(reason) | Event::DrainBegan { reason, .. } if in_flight == 0 => {
            format!("{}: stopping", reason.words())
        }
        // The run is stopping, or the calls in flight get less time than before.
        Event::DrainBegan { reason, longest } => {
            let again = match reason {
                CancelReason::Interrupted => {
                    " (Ctrl-C again stops immediately and loses their answers)"
                }
                _ => "",
            };
            let (longest, calls) = (whole_seconds(*longest), counted(in_flight, "call"));
            let why = reason.words();
            format!("{why}: waiting up to {longest} for {calls} in flight{again}")
        }
        _ => return None,
    }))
}

/// Why different users may get the same answer.
pub(super) const MIXED_UP: &str = "a cache or proxy may be answering for the service";

impl Notices {
    /// The warning about an event, without the word `warning` in front.
    fn warning(&self, event: &Event, counts: &Counts) -> Option<String> {
        Some(match event {
            // Only once: a cache that mixes up one answer mixes up many.
            Event::TransactionRepeated {
                row,
                first,
                first_file,
            } if counts.calls.repeated_transaction_ids == 1 => {
                let mut rows = [(*first_file, *first), (counts.state.file, *row)];
                rows.sort_unstable();
                let rows = rows.map(|(file, row)| self.named(file, row)).join(" and ");
                format!("two different users got the same transaction id, in {rows}: {MIXED_UP}")
            }
            Event::ManyRefused { rows } => format!(
                "the service has rejected {rows} consecutive rows; the rejects file says why"
            ),
            Event::ScoreBelowZero { row } => format!(
                "{} got a score below 0, which is decided like any low score: check that the service does not mean \"no score\" by it",
                self.named(counts.state.file, *row)
            ),
            Event::FieldsAbsent { answers, fields } => {
                let none_of = match answers {
                    1 => "the only answer so far does not have".to_owned(),
                    answers => format!("none of the first {answers} answers has"),
                };
                format!("{none_of} {fields}: check the pointer of `--column` or `--decide-by`")
            }
            // Only once; the summary has the number.
            Event::AnswerPassedOver {
                why: PassedOver::Damaged,
                ..
            } if counts.ledger_answers_damaged == 1 => {
                "the ledger is damaged: the seal of an answer is broken, and its row is sent again; SQLite's `quick_check` may tell more"
                    .to_owned()
            }
            _ => return None,
        })
    }

    /// `row 3`, or with its file ``row 3 of `x.csv` ``.
    fn named(&self, file: u64, row: RowNumber) -> String {
        let mut names = (1..).zip(&self.files);
        match names.find(|(number, _)| *number == file) {
            Some((_, name)) => format!("row {row} of `{name}`"),
            None => format!("row {row}"),
        }
    }
}
