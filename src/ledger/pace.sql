-- The pace that the runs of an account share. Each of these peers asks about ten times a second
-- what it may do, and reports what it has observed. Only the program knows what the value and the
-- tallies mean. Times are seconds since the row began.
--
-- The table is not logged, so that asking needs no sync. After a crash of the server it is empty,
-- and the pace starts again.
CREATE UNLOGGED TABLE pace (
    account BIGINT PRIMARY KEY,
    -- When the row began, and when a peer last asked, in seconds since 1970.
    began DOUBLE PRECISION NOT NULL DEFAULT 0,
    heard DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- 0 without a value. No other value ever has the same number.
    version BIGINT NOT NULL DEFAULT 0,
    value JSON,
    -- What the value means, by the peer that made it.
    rate DOUBLE PRECISION NOT NULL DEFAULT 0,
    most INTEGER NOT NULL DEFAULT 0,
    until DOUBLE PRECISION NOT NULL DEFAULT 0,
    is_alone BOOLEAN NOT NULL DEFAULT false,
    due DOUBLE PRECISION NOT NULL DEFAULT 0,
    cut_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- What peers have observed since one was last asked for a step, and whether the next step is
    -- urgent.
    tallies JSON[] NOT NULL DEFAULT '{}',
    is_urgent BOOLEAN NOT NULL DEFAULT false,
    -- Until then no other peer is asked for a step, and no call is granted.
    given_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    held_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- When the next call may be granted, and when the last probe was: a call that is made alone.
    next_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    single_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- When each peer last had something to call for, and how many calls it has in flight.
    workers JSONB NOT NULL DEFAULT '{}'
-- The whole row changes with each question, and with room beside it its new version stays on the
-- same page.
) WITH (fillfactor = 10);

-- Reports and asks together; `pace/shared.rs` defines the question and the reply. Tests set the
-- time.
CREATE FUNCTION ask_pace(of_account BIGINT, ask JSON, at_test DOUBLE PRECISION DEFAULT NULL) RETURNS JSON
LANGUAGE plpgsql AS $$
DECLARE
    r pace;
    at DOUBLE PRECISION;
    now DOUBLE PRECISION;
    step JSON := ask -> 'step';
    is_cut BOOLEAN;
    wants INTEGER := ask ->> 'wants';
    others INTEGER;
    rank INTEGER;
    out_of_others INTEGER;
    heard DOUBLE PRECISION;
    calls INTEGER := 0;
    first DOUBLE PRECISION;
    given JSON;
BEGIN
    SELECT * INTO r FROM pace WHERE account = of_account FOR UPDATE;
    IF NOT found THEN
        INSERT INTO pace (account) VALUES (of_account) ON CONFLICT DO NOTHING;
        SELECT * INTO r FROM pace WHERE account = of_account FOR UPDATE;
    END IF;
    at := coalesce(at_test, extract(epoch FROM clock_timestamp()));
    IF r.heard + 10 < at THEN
        -- No peer has asked for long: the pace starts again.
        DELETE FROM pace WHERE account = of_account;
        INSERT INTO pace (account, began) VALUES (of_account, at) RETURNING * INTO r;
    END IF;
    now := at - r.began;
    IF (step ->> 'version')::BIGINT = r.version THEN
        is_cut := (step ->> 'cut_at')::DOUBLE PRECISION > r.cut_at;
        IF is_cut THEN
            -- Calls that were allowed and not made until now are not made up for.
            r.next_at := greatest(r.next_at, now);
        END IF;
        IF r.is_alone AND NOT (step ->> 'is_alone')::BOOLEAN THEN
            r.next_at := greatest(r.next_at, r.single_at + 1 / (step ->> 'rate')::DOUBLE PRECISION);
        END IF;
        IF is_cut OR NOT r.is_urgent THEN
            r.held_until := 0;
        END IF;
        r.version := CASE r.version WHEN 0 THEN floor(at * 1000) + 1 ELSE r.version + 1 END;
        r.value := step -> 'value';
        r.rate := step ->> 'rate';
        r.most := step ->> 'most';
        r.until := step ->> 'until';
        r.is_alone := step ->> 'is_alone';
        r.due := step ->> 'due';
        r.cut_at := step ->> 'cut_at';
        r.given_until := 0;
    END IF;
    IF json_typeof(ask -> 'tally') = 'array' THEN
        IF (ask ->> 'holds')::BOOLEAN AND r.held_until <= now
            AND (ask -> 'tally' ->> 0)::DOUBLE PRECISION >= r.cut_at THEN
            -- A call was refused: no call is granted before the next step, or for 0.3 s if none
            -- comes.
            r.held_until := now + 0.3;
        END IF;
        r.tallies := r.tallies || (ask -> 'tally');
    END IF;
    r.is_urgent := r.is_urgent OR (ask ->> 'is_urgent')::BOOLEAN;
    -- A peer that had nothing to call for in the last two seconds, or was killed, gets no share.
    heard := CASE WHEN wants > 0 OR (ask ->> 'out')::INTEGER > 0 OR r.is_alone THEN now
        ELSE coalesce((r.workers -> (ask ->> 'worker') ->> 0)::DOUBLE PRECISION, 0) END;
    SELECT coalesce(jsonb_object_agg(key, value), '{}'), count(*), count(*) FILTER (WHERE key < (ask ->> 'worker')),
            coalesce(sum((value ->> 1)::INTEGER), 0)
        INTO r.workers, others, rank, out_of_others
        FROM jsonb_each(r.workers)
        WHERE (value ->> 0)::DOUBLE PRECISION + 2 > now AND key <> (ask ->> 'worker');
    r.workers := r.workers || jsonb_build_object(ask ->> 'worker', jsonb_build_array(heard, (ask ->> 'out')::INTEGER));
    first := now;
    IF r.version > 0 AND wants > 0 AND now >= r.until AND now >= r.held_until THEN
        IF r.is_alone THEN
            -- One probe after each pause, and another one if its result does not come.
            IF r.single_at < r.until OR r.single_at + 5 < now THEN
                r.single_at := now;
                calls := 1;
            END IF;
        ELSE
            -- Calls that nobody asked for can be granted later, within the time in which every
            -- peer asks.
            first := greatest(r.next_at, now - 0.13, r.until);
            IF first <= now THEN
                calls := least(wants, floor((now - first) * r.rate) + 1);
                r.next_at := first + calls / r.rate;
            END IF;
        END IF;
    END IF;
    IF (r.version = 0 OR r.is_urgent OR now >= r.due) AND now >= r.given_until THEN
        given := to_json(r.tallies);
        r.tallies := '{}';
        r.is_urgent := false;
        r.given_until := now + 0.3;
    END IF;
    UPDATE pace SET heard = at, version = r.version, value = r.value, rate = r.rate, most = r.most, until = r.until,
        is_alone = r.is_alone, due = r.due, cut_at = r.cut_at, tallies = r.tallies, is_urgent = r.is_urgent,
        given_until = r.given_until, held_until = r.held_until, next_at = r.next_at, single_at = r.single_at,
        workers = r.workers
        WHERE account = of_account;
    -- If fewer calls may be in flight than there are peers, these take turns.
    RETURN json_build_object('now', now, 'version', r.version,
        'value', CASE WHEN (ask ->> 'known')::BIGINT IS DISTINCT FROM r.version THEN r.value END,
        'calls', calls, 'first', first, 'rate', r.rate,
        'part', r.most / (others + 1) + ((rank + floor(now / 5)::INTEGER) % (others + 1) < r.most % (others + 1))::INTEGER,
        'others', out_of_others, 'workers', others + 1, 'held_until', r.held_until, 'step', given);
END $$;
