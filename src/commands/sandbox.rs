//! `rescore sandbox`: the stand-in for the service as a program of its own, for rehearsals.

use super::signals::{Signals, runtime};
use crate::base::error::{Error, Exit, Result};
use crate::observe::tell;
use crate::sandbox::{self, SandboxSettings};

/// Serves until SIGINT or SIGTERM, then tells what was billed.
///
/// # Errors
/// Exit code 2: it cannot listen on the address.
pub(crate) fn execute(settings: &SandboxSettings) -> Result<Exit> {
    let runtime = runtime()?;
    let cannot = |e| Error::usage(format!("cannot listen on `{}`", settings.listen)).because(e);
    runtime.block_on(async {
        let listener = sandbox::listen(settings.listen).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let key = if settings.accepted_keys.is_empty() {
            "any RESCORE_API_KEY"
        } else {
            "RESCORE_API_KEY set to a key of `--accept-key`"
        };
        // Before the words below promise that Ctrl-C stops it.
        let mut signals = Signals::listen()?;
        tell(&format!("rescore sandbox: a stand-in for the service, listening on http://{address}"));
        tell(&format!("         try `rescore run users.csv -o scored.csv --base-url http://{address} --service-id test` with {key}"));
        tell(&format!("         what it has billed: http://{address}/billed; Ctrl-C stops it"));
        let stop = async move {
            signals.next().await;
        };
        let report = sandbox::serve(listener, settings.clone(), stop).await.map_err(cannot)?;
        tell(&format!("rescore sandbox: {report}"));
        Ok(Exit::Complete)
    })
}
