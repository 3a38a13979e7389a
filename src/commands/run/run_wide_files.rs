//! The files that a run reads and writes once, however many inputs it has: their names, which no other file may have.

use std::path::{Path, PathBuf};

use super::super::files::NamedFile;
use super::ledger::LedgerPlan;
use super::service::Answerer;
use crate::config::WatchConfig;
use crate::service::KeyFile;

/// The files that a run reads and writes once, however many inputs it has.
pub(super) struct RunWideFiles {
    key: Option<PathBuf>,
    certificate_authority: Option<PathBuf>,
    summary: Option<PathBuf>,
    metrics: Option<PathBuf>,
    log: Option<PathBuf>,
    ledger: Option<PathBuf>,
    lock: Option<PathBuf>,
}

impl RunWideFiles {
    /// Those of this run.
    pub(super) fn of(watch: &WatchConfig, answerer: &Answerer, ledger: &LedgerPlan) -> Self {
        let key = answerer.settings.key_file.as_ref().map(KeyFile::path);
        let log = watch.log.as_ref().and_then(|log| log.target.file());
        Self {
            key: key.map(Path::to_owned),
            certificate_authority: answerer.settings.ca_file.clone(),
            summary: watch.summary.clone(),
            metrics: watch.metrics.clone(),
            log: log.map(Path::to_owned),
            ledger: ledger.file(),
            lock: ledger.lock_path(),
        }
    }

    /// Those that are only read.
    pub(super) fn read(&self) -> impl Iterator<Item = NamedFile<'_>> {
        let key = { self.key.as_deref() }.map(|path| NamedFile::new("API key file", path));
        let ca = self.certificate_authority.as_deref();
        let ca = ca.map(|path| NamedFile::new("certificate authority", path));
        key.into_iter().chain(ca)
    }

    /// Those that are written.
    pub(super) fn written(&self) -> impl Iterator<Item = NamedFile<'_>> {
        let summary = { self.summary.as_deref() }.map(|path| NamedFile::new("summary", path));
        let metrics = { self.metrics.as_deref() }.map(|path| NamedFile::new("metrics", path));
        let ledger = self.ledger.as_deref().map(NamedFile::ledger);
        let log = { self.log.as_deref() }.map(|path| NamedFile::new("log", path));
        let lock = { self.lock.as_deref() }.map(|path| NamedFile::new("output's lock", path));
        let files = summary.into_iter().chain(metrics).chain(log);
        files.chain(ledger).chain(lock)
    }
}
