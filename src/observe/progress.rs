//! Progress while a run lasts: a thread that shows a bar, lines or JSON objects at intervals, and in between warnings, pauses and
//! other notices as they happen.
//!
//! The bar is two lines: how far the run is, and below that why calls wait and what they brought. Both fit terminals of any
//! width. indicatif draws them on a page in memory, as only `base::stderr` writes to the terminal.

use std::env;
use std::io::{IsTerminal, Result};
use std::mem::take;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use serde::Serialize;
use serde_json::value::RawValue;

use super::messages::{speaks_json, warn};
use super::numbers::{
    count, counted, now_in_local_time, one_line, parts, rate, verdicts, whole_seconds,
};
use super::run_status::report;
use super::snapshot::{Now, ProgressSettings, RecentProgress, Snapshot, down, paused};
use super::summary::RunIdentity;
use crate::base::numbers::time;
use crate::base::stderr::{TabProgress, columns, draw, say, say_progress};
use crate::base::threads::lock;
use crate::row::RowNumber;
use crate::telemetry::counts::{Counts, Events, Observer};
use crate::telemetry::event::{CancelReason, Event, PassedOver};

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
    /// Replaces `auto` by a bar on a terminal that can redraw, and by lines everywhere else. If the rows go to the terminal too,
    /// there is never a bar: it would be drawn over them.
    pub(crate) fn chosen(self, rows_on_terminal: bool) -> Self {
        let dumb = || env::var_os("TERM").is_some_and(|kind| kind == "dumb");
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
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// The first line comes early: it shows that the run works.
const FIRST_LINE_AFTER: Duration = Duration::from_secs(3);
const LINE_INTERVAL: Duration = Duration::from_secs(10);

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
            settings: Arc::new(settings),
            shows_in_tab: style == Style::Bar && shows_in_tab(),
            has_shown_wait: false,
        };
        view.clone().report_rows(events.clone());
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || view.show(&events, &notices)).ok();
        Self { thread, ender }
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
#[derive(Clone)]
struct View {
    style: Style,
    settings: Arc<ProgressSettings>,
    /// The terminal shows progress in its tab as well.
    shows_in_tab: bool,
    /// A pause was shown since the last line. A service that refuses a call every second must not fill a log: the next line
    /// shows the other pauses.
    has_shown_wait: bool,
}

impl View {
    /// From now on, the status of the run has these numbers as well.
    fn report_rows(self, events: Events) {
        let mut recent = RecentProgress::default();
        report(move |status| {
            let now = Snapshot::take(&events, &self.settings, &mut recent);
            let [head, below] = self.words(&now);
            status.message = head.join(", ") + "\n" + &below.join("; ");
            status.hint = Some(self.settings.after_kill.clone());
            status.progress = RawValue::from_string(self.json(&now)).ok();
        });
    }

    fn show(&mut self, events: &Events, notices: &Receiver<Notice>) {
        let (first, every) = match self.style {
            Style::Bar => (FRAME_INTERVAL, FRAME_INTERVAL),
            _ => (FIRST_LINE_AFTER, LINE_INTERVAL),
        };
        let mut recent = RecentProgress::default();
        let mut next = events.elapsed() + first;
        loop {
            let notice = notices.recv_timeout(next.saturating_sub(events.elapsed()));
            let mut now = || Snapshot::take(events, &self.settings, &mut recent);
            match notice {
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
            draw(&[], None);
        }
    }

    /// Shows the numbers of this moment.
    fn frame(&mut self, now: &Snapshot) {
        self.has_shown_wait = false;
        match self.style {
            Style::Bar => {
                let share = now.now.percent.map(|percent| percent / 100.0);
                let tab = self.shows_in_tab.then(|| in_tab(&now.now));
                draw(&picture(share, self.words(now), columns()), tab);
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

    /// Shows a notice, which does not wait for the next frame.
    fn notice(&mut self, notice: &Notice, now: &Snapshot) {
        match (self.style, notice) {
            (_, Notice::Warning(words)) => warn(words),
            (Style::Json, _) => say(&self.json(now)),
            (Style::Plain, Notice::Wait(_)) if self.has_shown_wait => {}
            (Style::Plain, Notice::Said(words) | Notice::Wait(words)) => {
                self.has_shown_wait |= matches!(notice, Notice::Wait(_));
                say(&with_time(words));
            }
            (Style::Bar, Notice::Said(words)) => say(&format!("rescore: {words}")),
            // The bar itself counts down.
            (Style::Auto | Style::Bar | Style::Off | Style::Plain, _) => {}
        }
    }

    /// How far the run is, and below that why calls wait and what they brought.
    fn words(&self, now: &Snapshot) -> [Vec<String>; 2] {
        let (counts, reasons, now) = (&now.counts, &now.reasons, &now.now);
        let identity = &self.settings.identity;
        let (is_sandbox, expected) = (identity.sandbox, identity.expected.as_ref());
        // `file 3 of 64`, once there is a first file of several.
        let file = now.file.filter(|file| *file > 0).zip(now.files);
        let head = [
            // In a long run, one percent takes hours.
            now.percent
                .map(|percent| format!("{:.1}%", (percent * 10.0).floor() / 10.0)),
            file.map(|(file, files)| format!("file {} of {}", count(file), count(files))),
            Some(match expected {
                Some(expected) => {
                    let rows = counted(expected.rows, "row");
                    format!("{} of {rows}", count(counts.rows.resolved))
                }
                None => counted(counts.rows.resolved, "row"),
            }),
            now.remaining
                .map(|left| format!("ETA {}", whole_seconds(left))),
            is_sandbox.then(|| "sandbox".to_owned()),
            now.rows_per_second
                .map(|speed| format!("{} rows/s", rate(speed))),
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
    fn json(&self, now: &Snapshot) -> String {
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
            r#type: match now.counts.cancelled {
                Some(_) => "stopping",
                None => "progress",
            },
            identity: &self.settings.identity,
            counts: &now.counts,
            now: &now.now,
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
    /// The names of the files in their order, if there are several.
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

/// The service cannot be reached at the start.
const CANNOT_BE_REACHED: &str = "the service cannot be reached: it is tried again, at first every few seconds, for as long as \
    `--max-wait` says; Ctrl-C stops";

/// The notice about an event that people should know of immediately.
fn happened(at: Duration, event: &Event, counts: &Counts) -> Option<Notice> {
    let in_flight = counts.calls.in_flight;
    Some(Notice::Said(match event {
        Event::CallsPaused { pause, by } => {
            return Some(Notice::Wait(paused(pause.length, *pause, by)));
        }
        // Only once for each outage; later tries appear in the next line.
        Event::ServiceDown { lasted, why, .. } if lasted.is_zero() => {
            if counts.calls.answered == 0 {
                format!("{why}: {CANNOT_BE_REACHED}")
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

/// Whether the terminal is one that is known to show progress in its tab or in the taskbar.
fn shows_in_tab() -> bool {
    let variable = |name| env::var(name).unwrap_or_default();
    let version = variable("TERM_PROGRAM_VERSION");
    let version = version
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    match &*variable("TERM_PROGRAM") {
        "ghostty" | "WezTerm" => true,
        "iTerm.app" => version.ge([3, 6, 6]),
        _ => !variable("WT_SESSION").is_empty() || variable("ConEmuANSI") == "ON",
    }
}

/// What it shows there.
fn in_tab(now: &Now) -> TabProgress {
    let state = match now.percent {
        _ if now.outage_seconds.is_some() => 2,
        _ if now.pause_left_seconds.is_some() => 4,
        None => 3,
        Some(_) => 1,
    };
    let percent = now.percent.unwrap_or_default();
    TabProgress { state, percent }
}

/// Columns of the bar itself, by the columns of the terminal: the words beside it matter more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];
/// The bar's length in units: finer than any terminal draws.
const BAR_UNITS: f64 = 1000.0;
const SEPARATOR: &str = " · ";

/// The two lines for a terminal of this width. `share` is the part that is done, from 0 to 1; `None` if it is not known.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 1"
)]
fn picture(share: Option<f64>, lines: [Vec<String>; 2], columns: u16) -> Vec<String> {
    let [head, below] = lines;
    // After the last column some terminals start a new line and others do not.
    let width = usize::from(columns).saturating_sub(1);
    let fits = GAUGES.iter().find(|(least, _)| width >= *least);
    let gauge = share.and(fits).map(|(_, columns)| *columns);
    let room = width - gauge.map_or(0, |gauge| gauge + 1);
    let gauge = gauge.map(|columns| format!("{{bar:{columns}}} "));
    let template = gauge.unwrap_or_default() + "{prefix}\n{msg}";
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("█▉▊▋▌▍▎▏ ");
    let page = Page {
        columns,
        text: Arc::default(),
    };
    let target = ProgressDrawTarget::term_like(Box::new(page.clone()));
    let bar = ProgressBar::with_draw_target(Some(BAR_UNITS as u64), target)
        .with_style(style)
        .with_position((share.unwrap_or_default() * BAR_UNITS) as u64)
        .with_prefix(fit(head, room))
        .with_message(fit(below, width));
    bar.tick();
    // indicatif pads each line to the terminal's width. If the terminal is then made narrower, these lines wrap and can no
    // longer be redrawn in place; so the padding is removed.
    let text: Vec<_> = take(&mut *page.text()).chars().collect();
    let lines = text.chunks(usize::from(columns).max(1));
    lines
        .map(|line| line.iter().collect::<String>().trim_end().to_owned())
        .collect()
}

/// A terminal for indicatif: the text of one picture, without line breaks, as each line is as wide as the page.
#[derive(Debug, Clone)]
struct Page {
    columns: u16,
    text: Arc<Mutex<String>>,
}

impl Page {
    fn text(&self) -> MutexGuard<'_, String> {
        lock(&self.text)
    }
}

impl TermLike for Page {
    fn width(&self) -> u16 {
        self.columns
    }

    fn write_line(&self, text: &str) -> Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.text().push_str(text);
        Ok(())
    }

    // Only `base::stderr` moves the cursor.

    fn move_cursor_up(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn clear_line(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// The parts that fit, whole and in this order. Only the first is cut, if it alone is too long.
fn fit(parts: Vec<String>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, width);
        } else if line.chars().count() + SEPARATOR.chars().count() + part.chars().count() <= width {
            line += SEPARATOR;
            line += &part;
        }
    }
    line
}

fn cut(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(share: Option<f64>, columns: u16) -> Vec<String> {
        let parts = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let head = parts(["40.4%", "1,234,567 rows", "ETA 12 min 3 s", "412 rows/s"]);
        let below = parts([
            "pace 48.0/s, cut to see if throttling drops",
            "limit found: about 50.0/s",
            "approve 1,000,000, review 200,000",
            "in flight 16, retries 5",
        ]);
        picture(share, [head, below], columns)
    }

    #[test]
    fn a_narrow_bar_keeps_what_comes_first_whole() {
        let wide = [
            "██████▌          40.4% · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s",
            "pace 48.0/s, cut to see if throttling drops · limit found: about 50.0/s",
        ];
        assert_eq!(drawn(Some(0.404), 80), wide);
        let narrow = [
            "███▎     40.4% · 1,234,567 rows · ETA 12 min 3 s",
            "pace 48.0/s, cut to see if throttling drops",
        ];
        assert_eq!(drawn(Some(0.404), 60), narrow);
        let unknown = "40.4% · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s";
        assert_eq!(drawn(None, 80).first().map(String::as_str), Some(unknown));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_reason_is_cut_at_60_columns() {
        for width in 1..130 {
            for line in drawn(Some(0.5), width) {
                let columns = line.chars().count();
                assert!(columns < width.into(), "{columns} at {width}: {line}");
                assert!(!line.contains('…') || width < 60, "{width}: {line}");
            }
        }
    }
}
