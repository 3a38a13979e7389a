//! Looking at a ledger as a run that starts now would, wherever it is, and without changing anything.

use super::ledger_preview::LedgerPreview;
#[cfg(feature = "postgres")]
use super::ledger_preview::PreviewedRun;
use super::named_ledger::NamedLedger;
#[cfg(feature = "postgres")]
use super::postgres::{self, ServerPreview};
#[cfg(feature = "postgres")]
use super::row_lookup::RowLookup;
use super::session::open_preview;
use super::settings::PreviewSettings;
use crate::base::error::Result;

/// Opens a ledger; `None` if there is none yet, and the first run would make it.
///
/// # Errors
/// Exit code 2: it cannot be used, or has answers of several accounts and none was named. Exit code 3: its server does not
/// answer.
pub(crate) fn preview(settings: &PreviewSettings<'_>) -> Result<Option<LedgerPreview>> {
    match settings.ledger {
        NamedLedger::File(path) => open_preview(settings, path),
        #[cfg(feature = "postgres")]
        NamedLedger::Server(on) => {
            let ServerPreview {
                lookup,
                hasher,
                endpoint,
                known_limit,
                continues,
                others,
            } = postgres::open_preview(on, settings)?;
            Ok(Some(LedgerPreview {
                lookup: RowLookup::Server(Box::new(lookup)),
                hasher,
                endpoint,
                known_limit,
                run: if continues {
                    PreviewedRun::Continued
                } else {
                    PreviewedRun::New
                },
                others,
            }))
        }
    }
}
