//! What other thresholds would do to a scored file, from one pass that writes nothing.

use super::super::open_input::bytes_ignored;
use super::super::read_ahead::read_ahead;
use super::judge::{Judged, judge, warn_if_empty};
use crate::analysis::WhatIf;
use crate::base::error::{Exit, Result};
use crate::base::stdout::print;
use crate::input::{FileSettings, ScoredColumns, ScoredReader};
use crate::observe::{WhatIfView, warn};
use crate::telemetry::decide_stats::ScoredRows;
use crate::verdict::Thresholds;

/// Counts the scores and prints what each pair of thresholds would do.
///
/// # Errors
/// Exit code 2: the file is not a scored file. Exit code 3: standard output cannot be written.
pub(super) fn what_if(
    file: &FileSettings,
    prefix: &str,
    today: &Thresholds,
    json: bool,
) -> Result<Exit> {
    let columns = ScoredColumns::new(prefix, &[]);
    let (mut reader, opened) = ScoredReader::open(file, columns)?;
    let (mut what_if, mut rows) = (WhatIf::new(today), ScoredRows::default());
    for batch in read_ahead(move || reader.next_batch())? {
        for scored in batch?.rows {
            rows.read += 1;
            match judge(&scored, opened.layout.format) {
                Err(reason) => rows.unreadable(scored.row.number, reason),
                Ok(Judged::WithoutVerdict) => rows.without_verdict += 1,
                Ok(Judged::Scored(score, _)) => what_if.count(&score),
            }
        }
    }
    let view = WhatIfView {
        what_if: &what_if,
        rows: &rows,
        today,
        file: &file.input.shown(),
    };
    warn_if_empty(rows.read, &opened);
    if opened.ignored.any() {
        warn(&bytes_ignored("the input"));
    }
    print(&if json { view.json() } else { view.text() })?;
    Ok(if rows.unreadable_rows() > 0 {
        Exit::SomeFailed
    } else {
        Exit::Complete
    })
}
