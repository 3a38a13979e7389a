//! The thread that shows progress.

use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use super::bar::Bar;
use super::json_lines::JsonLines;
use super::notice::{Ender, Inbox, Notice};
use super::plain::{Plain, WarningsOnly};
use super::settings::ProgressSettings;
use super::snapshot::{Recent, Snapshot};
use super::style::Style;
use super::view::View;
use crate::telemetry::hub::Events;

/// The thread that shows progress.
pub(crate) struct ProgressThread {
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
    ender: Ender,
}

/// Ten pictures a second look live and cost next to nothing.
const FRAME: Duration = Duration::from_millis(100);

impl ProgressThread {
    /// Starts to show progress. A run whose thread cannot be started continues without it.
    #[must_use]
    pub(crate) fn start(
        settings: ProgressSettings,
        events: Events,
        inbox: Inbox,
        ender: Ender,
    ) -> Self {
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || show(&settings, &events, &inbox)).ok();
        Self { thread, ender }
    }

    /// Ends the progress and leaves the terminal clean.
    pub(crate) fn finish(self) {
        self.ender.end();
        // The thread does not wait for the terminal: see `stderr`.
        let _ = self.thread.map(JoinHandle::join);
    }
}

fn show(settings: &ProgressSettings, events: &Events, inbox: &Inbox) {
    let mut view: Box<dyn View> = match settings.style {
        Style::Bar => Box::new(Bar::new(settings.clone())),
        Style::Plain => Box::new(Plain::new(settings.clone())),
        Style::Json => Box::new(JsonLines::new(settings.clone())),
        Style::Off => Box::new(WarningsOnly),
    };
    let every = match settings.style {
        Style::Bar => FRAME,
        _ => settings.every,
    };
    let mut recent = Recent::default();
    let mut next = events.elapsed() + every;
    loop {
        match inbox.next(next.saturating_sub(events.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {
                view.frame(&Snapshot::take(events, settings, &mut recent));
                // Not `+=`: after the machine has slept, all missed frames would come in a burst.
                next = events.elapsed() + every;
            }
            Ok(Notice::End) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(notice) => {
                view.notice(notice, &Snapshot::take(events, settings, &mut recent));
            }
        }
    }
    view.end();
}
