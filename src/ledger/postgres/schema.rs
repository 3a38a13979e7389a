//! The tables of a ledger on a server. Only `rescore ledger init` makes or changes them.
//!
//! Names, addresses and phone numbers of people are not in them, nor the secret that keys are made with. Every name is
//! written with its schema, as a setting of a session does not survive a pooler.

/// The version of the tables. Another one is refused and never guessed at.
pub(super) const VERSION: i32 = 1;

/// The time of the server in milliseconds since 1970: the clocks of many machines differ.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// How long a worker is remembered after its lease has ended, and a claim that was given back, in milliseconds.
pub(super) const REMEMBERED: i64 = 86_400_000;

/// A part of a statement whose commit is then on the server's disk before it is answered, whatever the server's usual setting
/// is: a lost answer or claim would be paid for again.
pub(super) const DURABLE: &str = "durable AS MATERIALIZED (
    SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
)";

/// Two inits at the same time would both find nothing: the second waits for the first. "rescore", as a number.
pub(super) const INIT_LOCK: i64 = 0x0072_6573_636f_7265;

/// The tables. The schema may have been made by somebody who has the right to.
pub(super) const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS rescore;

    -- One row: the version of these tables, what a secret must match, and when they were made.
    CREATE TABLE rescore.ledger (
        id int PRIMARY KEY CHECK (id = 1),
        version int NOT NULL,
        check_value bytea NOT NULL,
        created bigint NOT NULL
    );

    -- Who was asked: a hash of address and service ID; what makes the keys of requests, sealed with the secret; and the
    -- address in plain text.
    CREATE TABLE rescore.contexts (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name uuid NOT NULL UNIQUE,
        sealed bytea NOT NULL,
        endpoint text NOT NULL
    );

    -- The additional answer fields that runs asked for, as pointers, and when a run last did.
    CREATE TABLE rescore.fields (pointer text PRIMARY KEY, requested bigint NOT NULL);

    -- Where answers come from: who was asked, and the fields that they were stored with (a JSON array of pointers).
    CREATE TABLE rescore.captured_fields (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        context int NOT NULL REFERENCES rescore.contexts,
        pointers text NOT NULL,
        UNIQUE (context, pointers)
    );

    -- One row for each request that was answered. Eight columns at most: with more, each row would be eight bytes longer.
    CREATE TABLE rescore.answers (
        -- The keyed hash of the request.
        key uuid PRIMARY KEY,
        -- The transaction id, in one of two columns: of 16 bytes where it is a UUID in its usual form.
        transaction_uuid uuid,
        -- When it arrived, by this server's clock, in milliseconds since 1970.
        at bigint NOT NULL,
        -- A row of captured_fields.
        source int NOT NULL,
        -- The digits of the score, as the service sent them.
        score text NOT NULL,
        transaction_text text,
        -- The values of the captured fields: a JSON array.
        captured text,
        -- The answer that this one replaced: its time, a space, its score.
        replaced text,
        CHECK ((transaction_uuid IS NULL) <> (transaction_text IS NULL))
    );

    -- Processes that call the service, each until its lease ends.
    CREATE TABLE rescore.workers (
        id uuid PRIMARY KEY,
        started bigint NOT NULL,
        alive_until bigint NOT NULL
    );

    -- Requests that a worker calls for now. Rows come and go with each call, so the table is cleaned often.
    CREATE TABLE rescore.claims (
        key uuid PRIMARY KEY,
        -- Empty where a worker has given it back, and its call may have been billed without an answer.
        worker uuid,
        -- Whether it was another worker's before, whose lease had ended: its call may have been billed.
        taken_over boolean NOT NULL DEFAULT false,
        -- When it was given back, in milliseconds since 1970; empty for a worker's, which end with their worker.
        at bigint,
        CHECK ((worker IS NULL) = (at IS NOT NULL))
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

    -- Runs that are under way or were stopped: so that they continue as what they were. The name is a hash of the machine
    -- and the output.
    CREATE TABLE rescore.runs (
        name uuid PRIMARY KEY,
        started bigint NOT NULL,
        -- Older answers are not used; empty where all are.
        not_before bigint,
        -- Rows perhaps billed twice that no summary has counted.
        maybe_billed_twice bigint NOT NULL
    );

    -- The load that the service was found to accept: calls per second and calls in flight, each with how often it refused
    -- above that and accepted below, and when it last showed that.
    CREATE TABLE rescore.limits (
        context int PRIMARY KEY REFERENCES rescore.contexts ON DELETE CASCADE,
        rate double precision,
        rate_times int,
        in_flight double precision,
        in_flight_times int,
        at bigint NOT NULL
    );

    -- The pace that all workers keep together. Times are microseconds since 1970: the next call is due at `tat`; a single
    -- call was granted, and a refusal reported, at `single_at` and `held_at`; the leader had read reports up to `seen`.
    CREATE TABLE rescore.pace (
        context int PRIMARY KEY REFERENCES rescore.contexts ON DELETE CASCADE,
        rate double precision NOT NULL,
        epoch bigint NOT NULL DEFAULT 0,
        tat bigint NOT NULL DEFAULT 0,
        paused_until bigint NOT NULL DEFAULT 0,
        alone boolean NOT NULL DEFAULT false,
        single_at bigint NOT NULL DEFAULT 0,
        held_at bigint NOT NULL DEFAULT 0,
        seen bigint NOT NULL DEFAULT 0,
        leader bigint NOT NULL DEFAULT 0,
        led_until bigint NOT NULL DEFAULT 0,
        asked_at bigint NOT NULL DEFAULT 0,
        -- What the leader decided last, and what workers reported since: JSON.
        state text NOT NULL DEFAULT '',
        reports text NOT NULL DEFAULT ''
    ) WITH (fillfactor = 20);
    -- The row changes ten times a second for each worker, and so would a table beside it.
    ALTER TABLE rescore.pace ALTER state SET STORAGE MAIN, ALTER reports SET STORAGE MAIN;
";

/// The rights of those who call the service: they cannot remove an answer or change whose it is.
pub(super) const WORKER_RIGHTS: &str = "
    GRANT USAGE ON SCHEMA rescore TO {role};
    GRANT SELECT ON ALL TABLES IN SCHEMA rescore TO {role};
    GRANT INSERT ON rescore.contexts, rescore.captured_fields, rescore.answers TO {role};
    GRANT UPDATE (transaction_uuid, at, source, score, transaction_text, captured, replaced)
        ON rescore.answers TO {role};
    GRANT INSERT, UPDATE, DELETE ON rescore.fields, rescore.workers, rescore.claims, rescore.runs, rescore.limits,
        rescore.pace TO {role};
";

/// The rights of those who look answers up.
pub(super) const READER_RIGHTS: &str = "
    GRANT USAGE ON SCHEMA rescore TO {role};
    GRANT SELECT ON rescore.ledger, rescore.contexts, rescore.captured_fields, rescore.answers, rescore.runs,
        rescore.limits TO {role};
";

/// The rights of those who remove old answers and forget people.
pub(super) const KEEPER_RIGHTS: &str = "
    GRANT USAGE ON SCHEMA rescore TO {role};
    GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA rescore TO {role};
    REVOKE DELETE ON rescore.ledger FROM {role};
    GRANT UPDATE (replaced) ON rescore.answers TO {role};
";
