//! Progress on a terminal: the only file that names indicatif.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Notice, Setting, Snapshot, View, words};

/// A bar with the throughput, and a line below it with verdicts and calls.
pub(super) struct Bar {
    all: MultiProgress,
    above: ProgressBar,
    below: ProgressBar,
    setting: Setting,
}

/// The bar's length in units: per mille is finer than any terminal draws.
const WHOLE: u64 = 1000;

impl Bar {
    pub(super) fn new(setting: Setting) -> Self {
        let all = MultiProgress::new();
        let style = |template: &str| {
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("█▉▊▋▌▍▎▏ ")
        };
        let bar = if setting.size.is_some() {
            ProgressBar::new(WHOLE).with_style(style("{bar:16.cyan} {prefix}  {wide_msg}"))
        } else {
            ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}"))
        };
        let bar = all.add(bar);
        let below = all.add(ProgressBar::new_spinner().with_style(style("{wide_msg}")));
        Self {
            all,
            above: bar,
            below,
            setting,
        }
    }
}

impl View for Bar {
    fn frame(&mut self, now: &Snapshot) {
        let mut head = Vec::with_capacity(4);
        head.push(words::counted(now.resolved, "row"));
        head.extend(now.rate.map(|rate| format!("{} rows/s", words::rate(rate))));
        head.extend(
            now.remaining
                .map(|left| format!("ETA {}", words::time(left))),
        );
        if self.setting.sandbox {
            head.push("sandbox".to_owned());
        }
        if let Some(share) = now.share {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share is from 0 to 1"
            )]
            self.above.set_position((share * 1000.0) as u64);
            self.above.set_prefix(words::percent(share));
        }
        self.above.set_message(head.join(" · "));
        self.below
            .set_message(format!("{} · {}", words::verdicts(now), words::calls(now)));
        self.above.tick();
        self.below.tick();
    }

    fn notice(&mut self, notice: Notice, now: &Snapshot) {
        let said = match notice {
            Notice::KeyRenewed => Some(format!("rescore: {}", words::KEY_RENEWED)),
            Notice::TransactionRepeated(..)
            | Notice::ManyRefused(_)
            | Notice::FieldsAbsent(..)
            | Notice::Unusable(_) => notice.warning(),
            Notice::Stopping(reason, in_flight, longest) => Some(format!(
                "rescore: {}",
                words::stopping(reason, in_flight, longest)
            )),
            Notice::Up(lasted) => Some(format!("rescore: {}", words::up(lasted))),
            Notice::Dismissed => Some(format!("rescore: {}", words::OUTAGE_DISMISSED)),
            // The bar itself counts down.
            Notice::Paused(_) | Notice::Down(_) | Notice::End => None,
        };
        if let Some(said) = said {
            // That it cannot be printed must not stop the run.
            let _ = self.all.println(said);
        }
        self.frame(now);
    }

    fn end(&mut self) {
        self.above.finish_and_clear();
        self.below.finish_and_clear();
    }
}
