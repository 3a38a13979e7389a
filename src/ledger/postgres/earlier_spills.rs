//! Answers that runs have left on this machine, as their server was away: where they are, and bringing them in, with the
//! claims that such a run could not give back.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::claims;
use super::fault::AtStart as _;
use super::import::{ImportFault, LedgerInFile};
use super::secret_file::HashingSecret;
use super::server::Server;
use super::settle::SettleScope;
use crate::base::error::{Error, Result, shown};
use crate::ledger::access::cannot_open;
use crate::ledger::db::connect::{Connect, Mode};
use crate::ledger::db::{answers, header, runs};
use crate::ledger::file::{self, LedgerKind};
use crate::ledger::holder::this_process;
use crate::ledger::lock::Lock;
use crate::ledger::request_key::RequestHasher;

/// How the names of such files start and end that belong to no output.
const START: &str = "rescore-";
const END: &str = ".spill";

/// Where a run's answers wait while the server is away: beside the output, or in the current directory under a name that no
/// other run has, on whichever machine or in whichever container.
pub(super) fn path_for(output: Option<&Path>) -> PathBuf {
    let Some(output) = output else {
        let [a, b, c, d, ..] = RequestHasher::of_pass().key(b"spill").hash();
        return format!("{START}{:08x}{END}", u32::from_be_bytes([a, b, c, d])).into();
    };
    let mut name = output.as_os_str().to_owned();
    name.push(END);
    name.into()
}

/// Brings what earlier runs to this output have left to the server, and gives their claims back; without an output, what
/// such runs have left in the current directory. The run that brings them in `started` then. Returns how many answers
/// those were.
///
/// # Errors
/// Exit code 2: the output's own file is of another ledger, or one of the files is damaged or cannot be removed. Exit code
/// 75: another run has the output's own file. Exit code 3: the server does not answer.
pub(super) fn bring_in(
    output: Option<&Path>,
    server: &Server,
    secret: &HashingSecret,
    started: i64,
) -> Result<u64> {
    let mut answers = 0;
    for path in left(output) {
        let Some(file) = EarlierSpill::open(&path, output.is_some())? else {
            continue;
        };
        if file.ledger.is_of(secret) {
            answers += file.bring_in(server, secret, started)?;
        } else if output.is_some() {
            file.give_up()?;
        }
        // Another ledger's runs bring the others in.
    }
    Ok(answers)
}

/// The files that runs may have left.
fn left(output: Option<&Path>) -> Vec<PathBuf> {
    if output.is_some() {
        let path = path_for(output);
        // A link counts as well, even one that leads nowhere.
        let is_there = path.symlink_metadata().is_ok();
        return is_there.then_some(path).into_iter().collect();
    }
    let here = std::fs::read_dir(".").into_iter().flatten().flatten();
    let names = here.filter_map(|entry| entry.file_name().into_string().ok());
    let ours = |name: &String| name.starts_with(START) && name.ends_with(END);
    names.filter(ours).map(PathBuf::from).collect()
}

fn foreign(path: &Path) -> Error {
    let shown = shown(path);
    Error::usage(format!(
        "`{shown}` has paid answers for another ledger: it was made with another secret"
    ))
    .hint(format!(
        "bring them to that one with `rescore ledger import {shown} --ledger ITS_LEDGER --ledger-secret-file ITS_SECRET` and remove the file, or move it away"
    ))
}

/// A file with answers that a run has left.
struct EarlierSpill<'a> {
    path: &'a Path,
    ledger: LedgerInFile,
    /// Whether it has answers, or only the name of a worker.
    has_answers: bool,
    /// The worker that its run has ended as; `None` where it was killed.
    worker: Option<EndedWorker>,
    lock: Lock,
}

/// A worker whose run has ended while the server was away.
#[derive(Clone, Copy)]
struct EndedWorker {
    id: Uuid,
    /// Whether its claims may have been billed: it is not known which of them.
    is_doubtful: bool,
}

impl<'a> EarlierSpill<'a> {
    /// Opens it, unless nothing is in it: then it is removed. Another run may have it, which is an error where it `must` be
    /// ours.
    fn open(path: &'a Path, must: bool) -> Result<Option<Self>> {
        let lock = match Lock::try_take(path, &this_process())? {
            Ok(lock) => lock,
            Err(other) if must => {
                let busy = format!("another run ({other}) has `{}`", shown(path));
                return Err(Error::busy(busy).hint("run the same command again when it has ended"));
            }
            Err(_) => return Ok(None),
        };
        file::check_own(path)?;
        // Its run may have brought it in just now.
        if !path.exists() {
            return Ok(None);
        }
        header::check(path)?;
        let unreadable = |error| cannot_open(path, &error);
        // A run that was killed may have left it half made: that is finished here, and shows that it has no answers.
        let (has_answers, worker) = { Connect::to(Mode::Create(LedgerKind::Shared)).open(path) }
            .and_then(|connection| Ok((answers::any(&connection)?, runs::latest(&connection)?)))
            .map_err(unreadable)?;
        if !has_answers && worker.is_none() {
            remove(path)?;
            return Ok(None);
        }
        let ledger = LedgerInFile::of_ours(path).map_err(unreadable)?;
        Ok(Some(Self {
            path,
            ledger,
            has_answers,
            worker: worker.map(|(id, doubtful)| EndedWorker {
                id: Uuid::from_bytes(id),
                is_doubtful: doubtful > 0,
            }),
            lock,
        }))
    }

    /// Makes way for the output's next file, where it is of another ledger.
    ///
    /// # Errors
    /// It has answers.
    fn give_up(self) -> Result<()> {
        if self.has_answers {
            return Err(foreign(self.path));
        }
        // What that worker has claimed is free at the end of its lease.
        remove(self.path)
    }

    fn bring_in(self, server: &Server, secret: &HashingSecret, started: i64) -> Result<u64> {
        let Self {
            path,
            ledger,
            worker,
            lock,
            ..
        } = self;
        let scope = SettleScope {
            worker: worker.map(|worker| worker.id).unwrap_or_default(),
            started,
            earliest: i64::MIN,
        };
        let brought = ledger.bring_in(server, secret, &scope);
        drop(ledger);
        let counts = match brought {
            Err(ImportFault::File(error)) => return Err(cannot_open(path, &error)),
            Err(ImportFault::Server(fault)) => {
                Err(fault).at_start("bring answers to", &server.shown())?
            }
            Ok(counts) => counts,
        };
        if let Some(worker) = worker {
            let left = server.wait(claims::leave(server, worker.id, worker.is_doubtful));
            left.at_start("give claims back to", &server.shown())?;
        }
        remove(path)?;
        drop(lock);
        Ok(counts.new + counts.known)
    }
}

/// Removes a file whose answers are elsewhere.
fn remove(path: &Path) -> Result<()> {
    file::remove(path).map_err(|error| {
        Error::usage(format!("cannot remove `{}`", shown(path)))
            .because(error)
            .detail("it has no answers that are not in the ledger as well")
    })
}
