//! The row of a shared pace: what a worker asks it and is answered, in one statement.
//!
//! `pace/shared/memory_row.rs` does the same in memory, for the simulator: a rule that changes here changes there. Times in
//! the row are microseconds of the server's clock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::ServerFault;
use super::server::{Lane, Server};
use crate::telemetry::shared_pace::{
    FIRST_RATE, HOLD, LEAD, PaceAsk, PaceReply, PaceReport, SINGLE, SharedPace,
};

/// The row of one account.
pub(super) struct ServerPace {
    server: Arc<Server>,
    context: i32,
}

/// Makes the row, which the first worker finds empty.
const MAKE: &str =
    "INSERT INTO rescore.pace (context, rate) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// What happens to the row, step by step. A crash may lose the last moments of it: waiting for the disk each time would hold
/// up the other workers, who wait for the row.
const ASK: &str = "
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    old AS MATERIALIZED (
        SELECT p.* FROM rescore.pace p, quick WHERE p.context = $1 FOR UPDATE OF p
    ),
    -- The time when the row was this worker's turn, and not when it asked.
    timed AS MATERIALIZED (
        SELECT old.*, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now FROM old
    ),
    led AS MATERIALIZED (
        SELECT t.*, t.leader = $2 AND $7::float8 IS NOT NULL AS decides, t.leader = $2 OR t.now >= t.led_until AS leads
        FROM timed t
    ),
    decided AS MATERIALIZED (
        SELECT context, now, leads, leader, led_until, asked_at, single_at, reports,
            CASE WHEN decides AND ($8 > epoch OR (alone AND NOT $10)) THEN now ELSE tat END AS tat,
            CASE WHEN decides THEN $7 ELSE rate END AS rate,
            CASE WHEN decides THEN $8 ELSE epoch END AS epoch,
            CASE WHEN decides THEN $9 ELSE paused_until END AS paused_until,
            CASE WHEN decides THEN $10 ELSE alone END AS alone,
            CASE WHEN decides THEN $11 ELSE seen END AS seen,
            CASE WHEN decides THEN $12 ELSE state END AS state,
            CASE WHEN $5 = CASE WHEN decides THEN $8 ELSE epoch END THEN now ELSE held_at END AS held_at
        FROM led
    ),
    paused AS MATERIALIZED (
        SELECT d.*,
            greatest(paused_until, CASE WHEN held_at > seen THEN held_at + $13 ELSE 0 END) AS nobody_before,
            greatest(tat, paused_until, now - $4) AS due_from
        FROM decided d
    ),
    granted AS MATERIALIZED (
        SELECT p.*,
            CASE
                WHEN nobody_before > now OR $3 = 0 THEN 0
                WHEN alone THEN CASE WHEN single_at < paused_until OR now > single_at + $15 THEN 1 ELSE 0 END
                WHEN due_from > now THEN 0
                ELSE least($3, floor((now - due_from) * rate / 1000000)::bigint + 1)
            END AS calls
        FROM paused p
    )
    UPDATE rescore.pace r SET
        rate = g.rate, epoch = g.epoch, paused_until = g.paused_until, alone = g.alone, seen = g.seen, state = g.state,
        held_at = g.held_at, asked_at = g.now,
        single_at = CASE WHEN g.alone AND g.calls > 0 THEN g.now ELSE g.single_at END,
        tat = CASE
            WHEN g.alone OR g.calls = 0 THEN g.tat
            ELSE g.due_from + (g.calls * 1000000 / g.rate)::bigint
        END,
        leader = CASE WHEN g.leads THEN $2 ELSE g.leader END,
        led_until = CASE WHEN g.leads THEN g.now + $14 ELSE g.led_until END,
        reports = CASE WHEN g.leads THEN '' ELSE g.reports || g.now || ' ' || $6 || E'\\n' END
    FROM granted g WHERE r.context = g.context
    RETURNING g.now, g.calls, r.rate, r.epoch, g.nobody_before, r.alone, r.tat, r.state,
        CASE WHEN g.leads THEN g.reports END, g.now - g.asked_at";

impl ServerPace {
    /// The row of this account.
    pub(super) const fn new(server: Arc<Server>, context: i32) -> Self {
        Self { server, context }
    }

    fn send(&self, ask: &PaceAsk) -> Result<Option<Row>, ServerFault> {
        let decision = ask.decision.as_ref();
        let worker = i64::from(ask.worker);
        let (calls, unused_for) = (i64::from(ask.calls), micros(ask.unused_for));
        let refused = ask.refused.map(whole);
        let rate = decision.map(|decision| decision.rate);
        let epoch = decision.map(|decision| whole(decision.epoch));
        let paused_until = decision.map(|decision| micros(decision.paused_until));
        let alone = decision.map(|decision| decision.alone);
        let seen = decision.map(|decision| micros(decision.seen));
        let state = decision.map(|decision| decision.state.as_str());
        let [hold, lead, single] = [HOLD, LEAD, SINGLE].map(micros);
        let params: [_; 15] = [
            (&self.context as _, Type::INT4),
            (&worker as _, Type::INT8),
            (&calls as _, Type::INT8),
            (&unused_for as _, Type::INT8),
            (&refused as _, Type::INT8),
            (&ask.report as _, Type::TEXT),
            (&rate as _, Type::FLOAT8),
            (&epoch as _, Type::INT8),
            (&paused_until as _, Type::INT8),
            (&alone as _, Type::BOOL),
            (&seen as _, Type::INT8),
            (&state as _, Type::TEXT),
            (&hold as _, Type::INT8),
            (&lead as _, Type::INT8),
            (&single as _, Type::INT8),
        ];
        let rows = self.server.query(Lane::Quick, ASK, &params)?;
        Ok(rows.into_iter().next())
    }

    fn make(&self) -> Result<(), ServerFault> {
        let params: [_; 2] = [
            (&self.context as _, Type::INT4),
            (&FIRST_RATE as _, Type::FLOAT8),
        ];
        self.server.query(Lane::Quick, MAKE, &params).map(drop)
    }
}

impl SharedPace for ServerPace {
    fn ask(&mut self, ask: &PaceAsk) -> io::Result<PaceReply> {
        let mut row = self.send(ask).map_err(io::Error::other)?;
        if row.is_none() {
            self.make().map_err(io::Error::other)?;
            row = self.send(ask).map_err(io::Error::other)?;
        }
        row.map(|row| reply(&row))
            .ok_or_else(|| io::Error::other("the row of the pace is not there"))
    }
}

fn reply(row: &Row) -> PaceReply {
    let reports: Option<String> = row.get(8);
    PaceReply {
        now: time(row.get(0)),
        calls: u32::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
        rate: row.get(2),
        epoch: u64::try_from(row.get::<_, i64>(3)).unwrap_or_default(),
        paused_until: time(row.get(4)),
        alone: row.get(5),
        next: time(row.get(6)),
        state: row.get(7),
        lead: reports.map(|lines| lines.lines().filter_map(report).collect()),
        idle: time(row.get(9)),
    }
}

/// A line of what workers have reported: when it came, and what it says.
fn report(line: &str) -> Option<PaceReport> {
    let (at, text) = line.split_once(' ')?;
    Some(PaceReport {
        at: Duration::from_micros(at.parse().ok()?),
        text: text.to_owned(),
    })
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}
