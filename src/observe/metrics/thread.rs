//! The thread that keeps the file of metrics fresh while a run lasts.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::messages::warn;
use super::file::MetricsFile;
use crate::base::error::{Exit, shown, system_words};
use crate::telemetry::hub::Events;

/// How often the file is replaced: node exporters are usually asked every 15 to 60 seconds.
const EVERY: Duration = Duration::from_secs(15);

/// Writes metrics until the run ends.
pub(crate) struct MetricsThread {
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
    end: Sender<Exit>,
}

impl MetricsThread {
    /// Writes the file now and starts to replace it at intervals. A run whose thread cannot be started writes it once more at
    /// its end, or not at all.
    #[must_use]
    pub(crate) fn start(file: MetricsFile, events: Events) -> Self {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || write(&file, &events, &ended)).ok();
        Self { thread, end }
    }

    /// Writes the file for the last time.
    pub(crate) fn finish(self, exit: Exit) {
        let _ = self.end.send(exit);
        let _ = self.thread.map(JoinHandle::join);
    }
}

fn write(file: &MetricsFile, events: &Events, ended: &Receiver<Exit>) {
    let mut warned = false;
    let mut end = None;
    loop {
        let (stats, now) = (events.with_stats(Clone::clone), events.elapsed());
        if let Err(error) = file.write(&stats, now, end)
            && !warned
        {
            // The rows matter more. Once is enough: the next attempt is only seconds away.
            warn(&format!(
                "cannot write the metrics to `{}`: {}",
                shown(file.path()),
                system_words(&error)
            ));
            warned = true;
        }
        if end.is_some() {
            return;
        }
        end = match ended.recv_timeout(EVERY) {
            Ok(end) => Some(end),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}
