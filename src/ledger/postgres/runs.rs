//! Runs that were stopped, by machine and output: a run that continues compares
//! with what was there before it first started, and uses no answer that it would not have used then.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fault::ServerFault;
use super::server::{Lane, Server};

/// A run, over all its stops. All times are in milliseconds since 1970, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerRun {
    /// `None` for a run to standard output, which is not recorded: several may be on their way at the same time.
    pub(super) name: Option<Uuid>,
    pub(super) started: i64,
    /// Older answers are not used.
    pub(super) not_before: i64,
    /// Rows that may be billed twice, as starts of the run have counted and no summary has said.
    pub(super) maybe_billed_twice: i64,
}

/// The run of this name, if it was stopped.
///
/// # Errors
/// The server is away, or the user may not look.
pub(super) fn find(server: &Server, name: Uuid) -> Result<Option<ServerRun>, ServerFault> {
    const FIND: &str =
        "SELECT started, not_before, maybe_billed_twice FROM rescore.runs WHERE name = $1";
    let rows = server.query(Lane::Quick, FIND, &[(&name, Type::UUID)])?;
    Ok(rows.first().map(|row| ServerRun {
        name: Some(name),
        started: row.get(0),
        not_before: row.get::<_, Option<i64>>(1).unwrap_or(i64::MIN),
        maybe_billed_twice: row.get(2),
    }))
}

impl ServerRun {
    /// Records that it is under way.
    ///
    /// # Errors
    /// The server is away, or the user may not write.
    pub(super) fn record(&self, server: &Server) -> Result<(), ServerFault> {
        const RECORD: &str = "INSERT INTO rescore.runs (name, started, not_before, maybe_billed_twice) VALUES ($1, $2, $3, $4)
            ON CONFLICT (name) DO UPDATE SET started = excluded.started, not_before = excluded.not_before,
                maybe_billed_twice = excluded.maybe_billed_twice";
        let Some(name) = self.name else {
            return Ok(());
        };
        let not_before = Some(self.not_before).filter(|it| *it != i64::MIN);
        let params: [_; 4] = [
            (&name as _, Type::UUID),
            (&self.started as _, Type::INT8),
            (&not_before as _, Type::INT8),
            (&self.maybe_billed_twice as _, Type::INT8),
        ];
        server.query(Lane::Durable, RECORD, &params).map(drop)
    }

    /// Records how many rows may be billed twice, as far as no summary has said.
    ///
    /// # Errors
    /// The server is away.
    pub(super) async fn record_double_bills(&self, server: &Server) -> Result<(), ServerFault> {
        const RECORD: &str = "UPDATE rescore.runs SET maybe_billed_twice = $2 WHERE name = $1";
        let Some(name) = self.name else {
            return Ok(());
        };
        let params: [_; 2] = [
            (&name as _, Type::UUID),
            (&self.maybe_billed_twice as _, Type::INT8),
        ];
        server.send(Lane::Durable, RECORD, &params).await.map(drop)
    }

    /// It has reached the end of its input: what is written to the same output after it is another run.
    ///
    /// # Errors
    /// The server is away.
    pub(super) fn forget(&self, server: &Server) -> Result<(), ServerFault> {
        const FORGET: &str = "DELETE FROM rescore.runs WHERE name = $1";
        let Some(name) = self.name else {
            return Ok(());
        };
        server
            .query(Lane::Quick, FORGET, &[(&name, Type::UUID)])
            .map(drop)
    }

    /// Answers that arrive now are dated no earlier: they are of this run, and usable.
    pub(super) const fn earliest(&self) -> i64 {
        if self.not_before > self.started {
            self.not_before
        } else {
            self.started
        }
    }
}
