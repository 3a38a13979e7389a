//! The record of a run, by which the same command continues it: which answers it uses, and how many calls it has made.
//!
//! A run is recognised by its output. It keeps the moment from which on answers are recent enough: so a run that is continued
//! gives what it would have given without the stop, and a run that asks everybody again does not start over.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use super::clock::{millis, time};
use super::database::{Database, hex};
use super::key::{PathHash, random_secret};
use super::lease::LeaseTerms;
use super::outputs::hash;
use super::settings::{LedgerSettings, Reuse};
use super::store::RunEnd;

/// In place of the number of a start: the claim was given up without an answer, and its call may have been billed.
pub(super) const ABANDONED: i64 = -1;

/// A run as it is stored.
struct StoredRun {
    /// A hash of its input's path.
    input: PathHash,
    /// Which answers it uses, as a word.
    reuse: String,
    not_before: i64,
    failures_from: i64,
    /// When it first started, in milliseconds since 1970.
    started: i64,
    /// The rows without a verdict, if it has ended.
    ended: Option<u64>,
    /// Calls of all its starts that are known to have been made.
    calls: u64,
    /// The most calls that it may have had in flight at a time.
    in_flight: u64,
    /// Its claims that no start of it has ended: so many calls at most were lost in kills.
    left_claims: u64,
    /// Those of them that were given up without an answer, whose calls are among `calls`.
    abandoned_claims: u64,
    /// Its lease lasts, and it is from another place.
    is_elsewhere: bool,
}

/// The run that starts now.
#[derive(Clone)]
pub(crate) struct RunPlan {
    /// A hash of its output's path; `None` for rows to a stream, which no run can continue.
    name: Option<PathHash>,
    /// A hash of its input's path.
    input: PathHash,
    /// Where its files are.
    place: String,
    /// Which answers it uses, as a word.
    reuse: String,
    pub(super) not_before: i64,
    pub(super) failures_from: i64,
    /// When it first started, in milliseconds since 1970.
    pub(super) started: i64,
    /// How the previous run to this output ended, if one was recorded.
    pub(crate) previous: Option<RunEnd>,
    /// Whether that had the same input.
    pub(crate) same_input: bool,
    /// Whether this run continues it.
    pub(crate) continues: bool,
    /// Whether it still runs, in another place.
    pub(super) is_elsewhere: bool,
    /// Calls of the run's earlier starts, with those that kills may have lost.
    pub(crate) calls_before: u64,
    /// Calls that a kill may have lost: their rows may be billed twice.
    pub(crate) lost_calls: u64,
    in_flight: NonZeroUsize,
    pub(super) lease: LeaseTerms,
    /// The time by the database's clock, in milliseconds since 1970.
    pub(super) now: i64,
}

/// A lease that was made or renewed.
#[derive(Clone, Copy)]
pub(super) struct Leased {
    /// The run's row, and a random number of its start.
    pub(super) us: (i64, i64),
    /// The time by the database's clock.
    pub(super) now: i64,
}

impl RunPlan {
    /// The plan of a run of these settings that starts now, with its files in this place.
    pub(super) fn read<D: Database>(
        database: &mut D,
        secret: &[u8; 32],
        settings: &LedgerSettings,
        place: String,
    ) -> Result<Self, D::Fault> {
        let is_kept = settings.location.path().is_some();
        let output = settings.output.as_deref().filter(|_| is_kept);
        let name = output.map(|output| hash(secret, Some(output)));
        let input = hash(secret, settings.input.as_deref());
        let times = format!(
            "SELECT {}, (SELECT at FROM answers ORDER BY seq DESC LIMIT 1)",
            D::NOW
        );
        let (mut now, mut last) = (0, None);
        for row in database.read(&times)? {
            (now, last) = (row.get(0)?, row.optional::<i64>(1)?);
        }
        let start = match (settings.reuse, last) {
            // Also answers are asked for again that a clock which was ahead has dated later.
            (Reuse::Nothing | Reuse::Retry, Some(last)) => now.max(last.saturating_add(1)),
            _ => now,
        };
        let found = match &name {
            Some(name) => StoredRun::find(database, name, &place)?,
            None => None,
        };
        let plan = Self::new((name, input), settings.reuse, found.as_ref(), time(start));
        Ok(Self {
            now,
            place,
            in_flight: settings.in_flight,
            lease: LeaseTerms::for_calls_of(settings.longest_call),
            ..plan
        })
    }

    /// The plan of a run to this output over this input, which uses these answers, where a run to the output was found.
    fn new(
        (name, input): (Option<PathHash>, PathHash),
        reuse: Reuse,
        found: Option<&StoredRun>,
        now: SystemTime,
    ) -> Self {
        let mut plan = Self {
            name,
            input,
            place: String::new(),
            reuse: reuse.word(),
            not_before: reuse.not_before(now),
            failures_from: reuse.failures_from(now),
            started: millis(now),
            previous: None,
            same_input: false,
            continues: false,
            is_elsewhere: false,
            calls_before: 0,
            lost_calls: 0,
            in_flight: NonZeroUsize::MIN,
            lease: LeaseTerms::for_calls_of(Duration::ZERO),
            now: millis(now),
        };
        let Some(found) = found else {
            return plan;
        };
        let is_stopped = found.ended.is_none() && found.input == input;
        let finished = { found.ended }.map(|failed| RunEnd::Finished { failed });
        plan.previous = Some(finished.unwrap_or(RunEnd::Stopped));
        plan.same_input = found.input == input;
        plan.is_elsewhere = found.is_elsewhere;
        plan.lost_calls = found.lost_calls(found.left_claims);
        let is_same = is_stopped && found.reuse == plan.reuse;
        if is_same || reuse == Reuse::Retry {
            // Of the answers of the run before, none is asked for again.
            plan.not_before = found.not_before;
            plan.continues = is_stopped;
        }
        if is_same {
            plan.failures_from = found.failures_from;
            plan.started = found.started;
        }
        if plan.continues {
            let not_in_calls = found.left_claims.saturating_sub(found.abandoned_claims);
            plan.calls_before = { found.calls }.saturating_add(found.lost_calls(not_in_calls));
        }
        plan
    }

    /// Answers that arrive from now on are dated no earlier, in milliseconds since 1970.
    pub(super) fn earliest(&self) -> i64 {
        self.not_before.max(self.failures_from)
    }

    /// Records that the run is under way. What earlier starts of it had claimed is in the count of lost calls, and nobody's now.
    /// `None` if its lease lasts in another place.
    pub(super) fn start<D: Database>(&self, database: &mut D) -> Result<Option<Leased>, D::Fault> {
        let (now, place) = (D::NOW, &self.place);
        let name = hex(&self.name.unwrap_or_else(random_secret));
        let is_free = format!("(runs.place = '{place}' OR runs.until < {now})");
        lease(
            database,
            &format!(
                "DELETE FROM claims WHERE run = (SELECT id FROM runs WHERE name = '{name}' AND {is_free});
                INSERT INTO runs (name, input, reuse, not_before, failures_from, started, calls, in_flight, start, until, place)
                VALUES ('{name}', '{}', '{}', {}, {}, {}, {}, {}, {}, {}, '{place}')
                ON CONFLICT (name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse,
                    not_before = excluded.not_before, failures_from = excluded.failures_from,
                    started = excluded.started, failed = NULL, calls = excluded.calls,
                    in_flight = excluded.in_flight, start = excluded.start, until = excluded.until,
                    place = excluded.place
                WHERE {is_free}
                RETURNING id, start, {now}",
                hex(&self.input),
                self.reuse,
                self.not_before,
                self.failures_from,
                self.started,
                self.calls_before,
                self.in_flight,
                D::RANDOM,
                self.until::<D>(),
            ),
        )
    }

    /// Renews a lease, as another start of the run if it had ended, and notes the calls of this start. `None` if the run was
    /// removed, or has been started in another place.
    pub(super) fn renew<D: Database>(
        &self,
        database: &mut D,
        (run, start): (i64, i64),
        calls: u64,
    ) -> Result<Option<Leased>, D::Fault> {
        let renewed = format!(
            "UPDATE runs SET start = CASE WHEN start = {start} AND until >= {now} THEN start ELSE {} END,
                calls = {}, until = {}
            WHERE id = {run} AND place = '{}' RETURNING id, start, {now}",
            D::RANDOM,
            self.calls_before.saturating_add(calls),
            self.until::<D>(),
            self.place,
            now = D::NOW,
        );
        lease(database, &renewed)
    }

    /// What each group of answers sets: the calls of this start, and the lease, if that has not ended.
    pub(super) fn progress<D: Database>(&self, calls: u64) -> String {
        let calls = self.calls_before.saturating_add(calls);
        let (now, until) = (D::NOW, self.until::<D>());
        format!("calls = {calls}, until = CASE WHEN until >= {now} THEN {until} ELSE until END")
    }

    fn until<D: Database>(&self) -> String {
        format!("{} + {}", D::NOW, self.lease.until(0))
    }

    /// The statements that end all claims and the lease, when so many calls were made.
    pub(super) fn leave<D: Database>(&self, (run, start): (i64, i64), calls: u64) -> String {
        let calls = self.calls_before.saturating_add(calls);
        format!(
            "DELETE FROM claims WHERE run = {run} AND start = {start};
            UPDATE runs SET calls = {calls}, until = {} - 1 WHERE id = {run} AND start = {start};",
            D::NOW
        )
    }

    /// Records how the run has ended. If this fails, the next run to the same output takes itself for this one and continues it.
    /// That is not worth failing for when every row is written.
    pub(super) fn end<D: Database>(&self, database: &mut D, run: i64, end: RunEnd) {
        let statements = match (end, self.name) {
            // Nobody can continue it.
            (_, None) => format!("DELETE FROM runs WHERE id = {run}"),
            (RunEnd::Stopped, Some(_)) => return,
            (RunEnd::Finished { failed }, Some(_)) => format!(
                "DELETE FROM claims WHERE run = {run}; UPDATE runs SET failed = {failed} WHERE id = {run}"
            ),
        };
        let _ = database.write(&statements);
    }
}

fn lease<D: Database>(database: &mut D, statements: &str) -> Result<Option<Leased>, D::Fault> {
    let rows = database.write(statements)?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Leased {
        us: (row.get(0)?, row.get(1)?),
        now: row.get(2)?,
    }))
}

impl StoredRun {
    /// How many calls for what was claimed kills may have lost: a run has claims for more than it has called for, and never more
    /// calls in flight than this, of which each can be lost once while it is called for and once while its answer is stored.
    fn lost_calls(&self, claims: u64) -> u64 {
        claims.min(self.in_flight.saturating_mul(2))
    }

    fn find<D: Database>(
        database: &mut D,
        name: &PathHash,
        place: &str,
    ) -> Result<Option<Self>, D::Fault> {
        let query = format!(
            "SELECT input, reuse, not_before, failures_from, started, failed, calls, in_flight,
            (SELECT count(*) FROM claims WHERE run = runs.id),
            (SELECT count(*) FROM claims WHERE run = runs.id AND start = {ABANDONED}),
            CASE WHEN place <> '{place}' AND until >= {} THEN 1 ELSE 0 END
            FROM runs WHERE name = '{}'",
            D::NOW,
            hex(name)
        );
        let rows = database.read(&query)?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(Self {
            input: row.hash(0)?,
            reuse: row.get(1)?,
            not_before: row.get(2)?,
            failures_from: row.get(3)?,
            started: row.get(4)?,
            ended: row.optional(5)?,
            calls: row.get(6)?,
            in_flight: row.get(7)?,
            left_claims: row.get(8)?,
            abandoned_claims: row.get(9)?,
            is_elsewhere: row.get::<u8>(10)? == 1,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn stored(plan: &RunPlan) -> StoredRun {
        StoredRun {
            input: plan.input,
            reuse: plan.reuse.clone(),
            not_before: plan.not_before,
            failures_from: plan.failures_from,
            started: plan.started,
            ended: None,
            calls: 10,
            left_claims: 4,
            abandoned_claims: 1,
            in_flight: 8,
            is_elsewhere: false,
        }
    }

    #[test]
    fn a_stopped_run_keeps_what_it_uses_and_counts_on() {
        let start = SystemTime::now();
        let names = (Some([1; 32]), [2; 32]);
        for reuse in [
            Reuse::All,
            Reuse::Recent(2 * HOUR),
            Reuse::Nothing,
            Reuse::Retry,
        ] {
            let first = RunPlan::new(names, reuse, None, start);
            assert!(!first.continues && first.calls_before == 0);
            let found = stored(&first);
            let second = RunPlan::new(names, reuse, Some(&found), start + HOUR);
            assert!(second.continues);
            assert_eq!(second.not_before, first.not_before);
            assert_eq!(second.failures_from, first.failures_from);
            assert_eq!(second.started, first.started);
            assert_eq!((second.calls_before, second.lost_calls), (13, 4));

            let other = (Some([1; 32]), [3; 32]);
            assert!(!RunPlan::new(other, reuse, Some(&found), start).continues);
            let ended = StoredRun {
                ended: Some(4),
                left_claims: 0,
                abandoned_claims: 0,
                ..found
            };
            let third = RunPlan::new(names, reuse, Some(&ended), start + HOUR);
            assert!(!third.continues && third.calls_before == 0);
            assert_eq!(third.previous, Some(RunEnd::Finished { failed: 4 }));
            assert_eq!(third.lost_calls, 0);
        }
    }

    #[test]
    fn failed_rows_of_a_run_are_asked_about_again_and_its_answers_are_not() {
        let start = SystemTime::now();
        let names = (Some([1; 32]), [0; 32]);
        let fresh = RunPlan::new(names, Reuse::Nothing, None, start);
        let ended = StoredRun {
            ended: Some(4),
            ..stored(&fresh)
        };
        let retry = RunPlan::new(names, Reuse::Retry, Some(&ended), start + HOUR);
        assert_eq!(retry.not_before, millis(start));
        assert_eq!(retry.failures_from, millis(start + HOUR));
    }
}
