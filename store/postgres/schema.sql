-- The tables and functions in which package postgres keeps locks. "{schema}" and {prefix} stand for where and how they
-- are called, {version} and {revision} for those of this schema, {channel} for the channel of watches.
--
-- This may be run again, and over the tables of an earlier revision while clients of that revision use them: a revision adds
-- columns that these do not know and functions that they do not call, and replaces functions by others that take and give
-- the same. What clients of before could not work with is another version.
--
-- Times are microseconds of the server's clock. Names, ids and records are bytes, so that no encoding, collation or
-- normal form makes one out of two.

CREATE TABLE IF NOT EXISTS "{schema}".{prefix}meta (
    one     integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL, -- of this schema
    floor   bigint  NOT NULL  -- no name that was cleaned away had a higher ticket
);

DO $stile$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"{schema}".{prefix}meta'::regclass AND attname = 'revision') THEN
        ALTER TABLE "{schema}".{prefix}meta
            ADD COLUMN revision integer NOT NULL DEFAULT 1,
            ADD COLUMN cleaned  bigint  NOT NULL DEFAULT 0; -- when idle names were last looked for
    END IF;
    IF EXISTS (SELECT FROM "{schema}".{prefix}meta WHERE version <> {version} OR revision > {revision}) THEN
        RAISE EXCEPTION 'the tables of locks were made by another version of stile' USING ERRCODE = 'STI03';
    END IF;
END
$stile$;

-- One row for each name in use. Whoever changes the queue of a name locks its row first, so changes come one by one and
-- tickets are in the order of commits. A row whose name is idle is deleted when floor has its last ticket.
--
-- A claim that enters an empty queue is kept in the row of its name, with the last ticket, for as long as no other
-- enters. One update that touches no index puts it there, and one takes it out.
CREATE TABLE IF NOT EXISTS "{schema}".{prefix}name (
    name     bytea   PRIMARY KEY,
    last     bigint  NOT NULL, -- highest ticket given
    head     bigint  NOT NULL, -- no claim has a lower ticket; keeps searches off the rows of claims that have left
    watched  bigint  NOT NULL, -- until when changes are told to those who watch
    queued   boolean NOT NULL DEFAULT true, -- false: the table of claims has none of this name
    ends     bigint  NOT NULL DEFAULT 0, -- of the lone claim, and so are those that follow; 0: there is none
    id       bytea   NOT NULL DEFAULT '',
    client   bytea   NOT NULL DEFAULT '',
    channel  text    NOT NULL DEFAULT '',
    owner    bytea   NOT NULL DEFAULT '',
    record   bytea   NOT NULL DEFAULT '',
    weight   bigint  NOT NULL DEFAULT 0,
    capacity bigint  NOT NULL DEFAULT 0,
    since    bigint  NOT NULL DEFAULT 0,
    delay    bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS "{schema}".{prefix}claim (
    name     bytea   NOT NULL,
    ticket   bigint  NOT NULL,
    id       bytea   NOT NULL,
    client   bytea   NOT NULL,
    channel  text    NOT NULL, -- where its client listens; empty: it does not
    owner    bytea   NOT NULL,
    record   bytea   NOT NULL,
    weight   bigint  NOT NULL,
    capacity bigint  NOT NULL,
    since    bigint  NOT NULL,
    ends     bigint  NOT NULL,
    delay    bigint  NOT NULL,
    told     boolean NOT NULL,
    departed boolean NOT NULL,
    PRIMARY KEY (name, ticket)
) WITH (fillfactor = 70);

CREATE OR REPLACE FUNCTION "{schema}".{prefix}now() RETURNS bigint LANGUAGE sql VOLATILE
AS $stile$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $stile$;

-- Does one thing to the queue of a name: enter, renew, leave or break, as driver.Queue does. A single statement cannot
-- do it, since it sees the queue as it was before it waited for the row of the name; each statement of a function sees
-- what was committed before the statement began.
CREATE OR REPLACE FUNCTION "{schema}".{prefix}do(
    p_verb text, p_name bytea, p_id bytea, p_client bytea, p_channel text, p_owner bytea, p_record bytea,
    p_weight bigint, p_capacity bigint, p_ttl bigint, p_wait bigint, p_delay bigint, p_keep bigint,
    p_ticket bigint, p_try boolean, p_reclaim boolean,
    OUT status text, -- ok, gone, capacity
    OUT ticket bigint, OUT holds boolean, OUT lease bigint, OUT ahead bigint, OUT retry bigint, OUT have bigint,
    OUT b_ticket bigint, OUT b_weight bigint, OUT b_holds boolean, OUT b_left boolean, OUT b_since bigint,
    OUT b_remaining bigint, OUT b_record bytea
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off -- a plan that was made while the tables were all but empty stays when they have grown
SET jit = off -- which compiles what it takes for a long scan
AS $stile$
DECLARE
    v_last bigint; v_head bigint; v_watched bigint; v_queued boolean; v_lone boolean; -- the row of the name
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    e record; v_gone bigint; v_live boolean; v_fits boolean; -- the claim that is looked at
    v_open boolean; v_room bigint;    -- whether all claims so far hold, and what they leave of the capacity
    v_count bigint; v_next bigint;    -- claims so far, and the end that the next one has to notice if it waits
    v_alarm bigint;                   -- the same for the claim that is asked for
    b record; v_b_holds boolean;      -- the claim at the head, or the one that is broken
    v_front bigint;                   -- ticket of the claim at the head
    v_rest_weight bigint; v_rest_capacity bigint; -- what a new claim would join
    v_found boolean; v_dead boolean; v_ends bigint; v_removed bigint; v_kept bigint;
    v_expired bigint[]; v_woken bigint[]; v_reclaimed bigint[];
    v_heir bigint; v_channel text; v_told text; -- the claim that comes next, and what its client is told
    v_new boolean := false; v_changed boolean := false; v_commit text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a lock is taken in a transaction of its own that is read committed' USING ERRCODE = 'STI01';
    END IF;

    -- A hand-over from a claim that has all of the capacity to the next, which wants all of it too, or to nobody. It is what
    -- the rest of the function would do, with a tenth of its expressions, each of which costs a microsecond or two to begin.
    -- Nothing but the status is set, so whoever wants more does not pass a p_keep of -1.
    IF p_verb = 'leave' AND p_keep = -1 THEN
        SELECT n.head INTO v_head FROM "{schema}".{prefix}name n
        WHERE n.name = p_name AND n.ends = 0 AND n.watched <= v_now FOR NO KEY UPDATE;
        FOR e IN
            SELECT c.ticket, c.id = p_id AS own, c.channel, encode(c.id, 'hex') AS hex, c.told, c.weight = c.capacity
                AND NOT c.departed AND c.ends > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS whole
            FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket >= v_head ORDER BY c.ticket LIMIT 2
        LOOP
            IF v_front IS NULL THEN
                EXIT WHEN NOT (e.own AND e.whole);
                v_front := e.ticket;
            ELSIF e.whole AND NOT e.told THEN
                v_heir := e.ticket; v_channel := e.channel; v_told := e.ticket || ' ' || e.hex;
            ELSE
                v_front := NULL;
            END IF;
        END LOOP;
        IF v_front IS NOT NULL THEN
            status := 'ok';
            DELETE FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = v_front;
            IF v_heir IS NULL THEN
                UPDATE "{schema}".{prefix}name n SET queued = false, last = greatest(n.last, v_front) WHERE n.name = p_name;
                v_commit := set_config('synchronous_commit', 'off', true); -- see the end
                RETURN;
            END IF;
            UPDATE "{schema}".{prefix}claim c SET told = true WHERE c.name = p_name AND c.ticket = v_heir;
            IF v_channel <> '' THEN
                PERFORM pg_notify(v_channel, v_told);
            END IF;
            IF current_setting('synchronous_commit') IN ('off', 'local') THEN
                v_commit := set_config('synchronous_commit', 'on', true);
            END IF;
            RETURN;
        END IF;
    END IF;

    status := 'gone'; ticket := 0; holds := false; lease := 0; ahead := 0; retry := 0; have := 0;
    b_ticket := 0; b_weight := 0; b_holds := false; b_left := false; b_since := 0; b_remaining := 0; b_record := '';

    -- A claim that is or comes to be alone. All that these decide by is in the row that they change, which is read anew
    -- after a wait for it. A time from before that wait is good enough: nobody else's lease is judged by it. A client that
    -- has tried this in the statement that calls the function says so by a p_keep of -1.
    IF p_verb = 'enter' AND p_ticket = 0 AND p_keep = 0 THEN
        UPDATE "{schema}".{prefix}name n SET last = greatest(n.last + 1, CASE WHEN v_now < 1::bigint << 52 THEN v_now ELSE 0 END),
            ends = v_now + p_ttl, id = p_id, client = p_client, channel = coalesce(p_channel, ''), owner = p_owner, record = p_record,
            weight = p_weight, capacity = p_capacity, since = v_now, delay = p_delay
        WHERE n.name = p_name AND n.last > 0 AND NOT n.queued AND n.ends = 0 AND n.watched <= v_now
        RETURNING n.last INTO ticket;
        v_lone := FOUND;
        IF v_lone THEN
            holds := true; lease := p_ttl;
        ELSE
            ticket := 0;
        END IF;
    ELSIF p_verb = 'renew' THEN
        UPDATE "{schema}".{prefix}name n SET ends = greatest(n.ends, v_now + p_ttl)
        WHERE n.name = p_name AND n.ends > v_now AND n.id = p_id RETURNING n.last, n.ends - v_now INTO ticket, lease;
        v_lone := FOUND;
        IF v_lone THEN
            holds := true;
        ELSE
            ticket := 0; lease := 0;
        END IF;
    ELSIF p_verb = 'leave' AND p_keep = 0 THEN
        UPDATE "{schema}".{prefix}name n SET ends = 0
        WHERE n.name = p_name AND n.ends > v_now AND n.id = p_id AND n.watched <= v_now;
        v_lone := FOUND;
    END IF;
    IF v_lone THEN
        status := 'ok';
        IF p_verb = 'leave' THEN -- see the end
            v_commit := set_config('synchronous_commit', 'off', true);
        ELSIF current_setting('synchronous_commit') IN ('off', 'local') THEN
            v_commit := set_config('synchronous_commit', 'on', true);
        END IF;
        RETURN;
    END IF;

    LOOP
        SELECT n.last, n.head, n.watched, n.queued, n.ends > 0 INTO v_last, v_head, v_watched, v_queued, v_lone
        FROM "{schema}".{prefix}name n WHERE n.name = p_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        IF p_verb <> 'enter' OR p_ticket <> 0 THEN
            RETURN;
        END IF;
        INSERT INTO "{schema}".{prefix}name (name, last, head, watched) VALUES (p_name, 0, 0, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    IF v_last = 0 THEN -- read after the row was made: whoever deleted an earlier one has committed the floor
        SELECT m.floor INTO v_last FROM "{schema}".{prefix}meta m WHERE m.one = 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the table {prefix}meta was emptied' USING ERRCODE = 'STI02';
        END IF;
    END IF;
    IF v_lone THEN
        INSERT INTO "{schema}".{prefix}claim SELECT n.name, n.last, n.id, n.client, n.channel, n.owner, n.record, n.weight,
            n.capacity, n.since, n.ends, n.delay, true, false FROM "{schema}".{prefix}name n WHERE n.name = p_name;
        UPDATE "{schema}".{prefix}name n SET ends = 0, head = n.last, queued = true WHERE n.name = p_name;
        v_head := v_last; v_queued := true;
    END IF;
    v_now := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; -- not before the row is ours: that takes time

    <<scan>> LOOP
        v_open := true; v_room := NULL; v_count := 0; v_next := NULL; v_front := NULL; v_rest_weight := 0;
        v_rest_capacity := p_capacity; v_found := false; v_dead := false; v_removed := NULL; v_kept := NULL;
        v_expired := '{}'; v_woken := '{}'; v_reclaimed := '{}';
        FOR e IN
            SELECT c.ticket, c.id, c.client, c.owner, c.weight, c.capacity, c.since, c.ends, c.delay, c.told, c.departed
            FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket >= v_head ORDER BY c.ticket
        LOOP
            v_last := greatest(v_last, e.ticket);
            v_gone := e.ends + CASE WHEN e.told AND NOT e.departed THEN e.delay ELSE 0 END;
            IF v_gone <= v_now THEN
                v_expired := v_expired || e.ticket;
                CONTINUE;
            END IF;
            v_room := coalesce(v_room, e.capacity);
            v_fits := v_open AND e.weight <= v_room;
            v_live := e.ends > v_now AND NOT e.departed;
            IF p_verb = 'break' THEN
                IF v_removed IS NULL AND (p_ticket = 0 OR e.ticket = p_ticket) THEN
                    v_removed := e.ticket; b := e; v_b_holds := v_fits;
                    CONTINUE;
                END IF;
            ELSIF e.id = p_id THEN
                IF NOT v_live THEN
                    v_dead := true;
                ELSIF p_verb <> 'leave' THEN
                    v_found := true; ticket := e.ticket; holds := v_fits; ahead := v_count; v_ends := e.ends;
                    v_alarm := v_next;
                ELSIF p_keep > 0 AND v_fits THEN
                    v_kept := e.ticket;
                ELSE
                    v_removed := e.ticket;
                    CONTINUE;
                END IF;
            END IF;
            IF v_fits AND v_live AND NOT e.told AND e.id <> p_id THEN
                v_woken := v_woken || e.ticket;
            END IF;
            IF v_count = 0 AND p_verb <> 'break' THEN
                b := e; v_b_holds := v_fits; v_front := e.ticket;
            END IF;
            v_count := v_count + 1;
            -- The first that waits is to notice the end of each that holds, every other that of the one before it.
            IF v_fits THEN
                v_room := v_room - e.weight; v_next := least(v_next, v_gone);
            ELSE
                v_open := false; v_next := v_gone;
            END IF;
            IF p_reclaim AND e.owner = p_owner AND e.client <> p_client AND NOT e.departed THEN
                v_reclaimed := v_reclaimed || e.ticket;
            ELSE
                v_rest_weight := v_rest_weight + e.weight; v_rest_capacity := e.capacity;
            END IF;
        END LOOP;
        EXIT WHEN p_verb <> 'enter' OR v_found OR v_dead OR p_ticket <> 0;

        -- The claim is new.
        IF v_rest_capacity <> p_capacity THEN
            status := 'capacity'; have := v_rest_capacity;
        ELSIF p_try AND v_rest_weight + p_weight > p_capacity THEN
            status := 'ok'; ahead := v_count; v_alarm := v_next;
        ELSIF v_reclaimed <> '{}' THEN
            DELETE FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = ANY (v_reclaimed);
            p_reclaim := false; v_changed := true;
            CONTINUE scan;
        ELSE
            -- The clock makes tickets rise even where the counter was lost: a standby that was behind, an old copy.
            ticket := greatest(v_last + 1, CASE WHEN v_now < 1::bigint << 52 THEN v_now ELSE 0 END);
            holds := v_rest_weight + p_weight <= p_capacity; ahead := v_count; v_ends := v_now; v_alarm := v_next;
            v_found := true; v_new := true;
        END IF;
        EXIT;
    END LOOP;

    IF v_found THEN
        status := 'ok';
        v_ends := greatest(v_ends, v_now + CASE WHEN holds THEN p_ttl ELSE p_wait END);
        lease := v_ends - v_now;
    END IF;
    IF v_new THEN
        INSERT INTO "{schema}".{prefix}claim VALUES (p_name, ticket, p_id, p_client, p_channel, p_owner, p_record, p_weight,
            p_capacity, v_now, v_ends, p_delay, holds, false);
        UPDATE "{schema}".{prefix}name n SET last = {prefix}do.ticket, head = coalesce(v_front, {prefix}do.ticket), queued = true
        WHERE n.name = p_name;
    ELSIF v_found THEN
        UPDATE "{schema}".{prefix}claim c SET ends = v_ends, told = c.told OR holds, channel = coalesce(p_channel, c.channel)
        WHERE c.name = p_name AND c.ticket = {prefix}do.ticket;
    ELSIF v_kept IS NOT NULL THEN
        status := 'ok';
        UPDATE "{schema}".{prefix}claim c SET ends = v_now + p_keep, departed = true
        WHERE c.name = p_name AND c.ticket = v_kept;
    ELSIF v_removed IS NOT NULL THEN
        status := 'ok';
    END IF;
    IF p_verb = 'break' AND v_removed IS NOT NULL OR status = 'ok' AND NOT holds AND ahead > 0 THEN
        b_ticket := b.ticket; b_weight := b.weight; b_holds := v_b_holds; b_left := b.departed;
        b_since := v_now - b.since; b_remaining := b.ends - v_now; retry := coalesce(v_alarm - v_now, 0);
        SELECT c.record INTO b_record FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = b.ticket;
    END IF;
    IF v_removed IS NOT NULL OR v_expired <> '{}' THEN
        DELETE FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = ANY (v_expired || v_removed);
    END IF;
    IF v_count = 0 AND NOT v_new AND v_queued AND v_last > 0 THEN
        UPDATE "{schema}".{prefix}name n SET queued = false, last = v_last WHERE n.name = p_name;
    END IF;
    IF v_woken <> '{}' THEN
        UPDATE "{schema}".{prefix}claim c SET told = true WHERE c.name = p_name AND c.ticket = ANY (v_woken);
        PERFORM pg_notify(c.channel, c.ticket || ' ' || encode(c.id, 'hex'))
        FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = ANY (v_woken) AND c.channel <> '';
    END IF;
    IF v_watched > v_now AND (v_new OR v_changed OR v_kept IS NOT NULL OR v_removed IS NOT NULL OR v_expired || v_woken <> '{}') THEN
        PERFORM pg_notify('{channel}', encode(p_name, 'hex'));
    END IF;

    -- What a client is promised must be on disk before it is told, whatever the default is here. A lock that was freed
    -- for nobody and a refusal need not be: should a crash undo them, a claim that nobody has any more runs out.
    IF p_verb = 'leave' AND v_kept IS NULL AND v_woken = '{}' OR p_verb = 'enter' AND NOT v_found AND v_woken = '{}' THEN
        v_commit := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') IN ('off', 'local') THEN
        v_commit := set_config('synchronous_commit', 'on', true);
    END IF;
END
$stile$;

-- Claims of many names that are alone, each on the terms of its own row: what enter_alone and leave_alone do to one is what
-- the function above does to a claim that is alone, and they return the numbers of those claims that they have done it to.
-- The others go on one by one: one whose row is not there or in other hands, and one that is not alone. They wait for no
-- row, so nobody is held back by another's name, and no two of them can wait for each other.
CREATE OR REPLACE FUNCTION "{schema}".{prefix}enter_alone(
    p_names bytea[], p_ids bytea[], p_clients bytea[], p_channels text[], p_owners bytea[], p_records bytea[],
    p_weights bigint[], p_capacities bigint[], p_ttls bigint[], p_delays bigint[]
) RETURNS TABLE (i bigint, ticket bigint) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off -- each name is found by the index, as above
SET plan_cache_mode = force_generic_plan SET jit = off
AS $stile$
DECLARE
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    v_commit text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a lock is taken in a transaction of its own that is read committed' USING ERRCODE = 'STI01';
    END IF;
    RETURN QUERY
    UPDATE "{schema}".{prefix}name n SET last = greatest(n.last + 1, CASE WHEN v_now < 1::bigint << 52 THEN v_now ELSE 0 END),
        ends = v_now + c.ttl, id = c.id, client = c.client, channel = c.channel, owner = c.owner, record = c.record,
        weight = c.weight, capacity = c.capacity, since = v_now, delay = c.delay
    FROM (
        SELECT r.* FROM unnest(p_names, p_ids, p_clients, p_channels, p_owners, p_records, p_weights, p_capacities, p_ttls, p_delays)
            WITH ORDINALITY r (name, id, client, channel, owner, record, weight, capacity, ttl, delay, i)
        JOIN "{schema}".{prefix}name l ON l.name = r.name FOR NO KEY UPDATE OF l SKIP LOCKED
    ) c
    WHERE n.name = c.name AND n.last > 0 AND NOT n.queued AND n.ends = 0 AND n.watched <= v_now
    RETURNING c.i, n.last;
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        v_commit := set_config('synchronous_commit', 'on', true);
    END IF;
END
$stile$;

CREATE OR REPLACE FUNCTION "{schema}".{prefix}leave_alone(p_names bytea[], p_ids bytea[]) RETURNS TABLE (i bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $stile$
DECLARE
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    v_commit text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a lock is freed in a transaction of its own that is read committed' USING ERRCODE = 'STI01';
    END IF;
    RETURN QUERY
    UPDATE "{schema}".{prefix}name n SET ends = 0
    FROM (
        SELECT r.* FROM unnest(p_names, p_ids) WITH ORDINALITY r (name, id, i)
        JOIN "{schema}".{prefix}name l ON l.name = r.name FOR NO KEY UPDATE OF l SKIP LOCKED
    ) c
    WHERE n.name = c.name AND n.ends > v_now AND n.id = c.id AND n.watched <= v_now
    RETURNING c.i;
    v_commit := set_config('synchronous_commit', 'off', true); -- see the end of the function above
END
$stile$;

-- Renews a claim, and if it holds changes its weight and its record where it stands, as driver.Claim.Amended says. A weight
-- of 0 and an empty record stay what they are.
CREATE OR REPLACE FUNCTION "{schema}".{prefix}amend(
    p_name bytea, p_id bytea, p_ttl bigint, p_wait bigint, p_weight bigint, p_from bytea, p_record bytea,
    OUT status text, -- ok, gone, waits, record
    OUT lease bigint, OUT have bytea
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $stile$
DECLARE
    v_ticket bigint; v_holds boolean; v_lone boolean; v_watched bigint;
BEGIN
    have := '';
    SELECT d.status, d.lease, d.ticket, d.holds INTO status, lease, v_ticket, v_holds
    FROM "{schema}".{prefix}do('renew', p_name, p_id, '', NULL, '', '', 0, 0, p_ttl, p_wait, 0, 0, 0, false, false) d;
    IF status <> 'ok' THEN
        RETURN;
    ELSIF NOT v_holds THEN
        status := 'waits';
        RETURN;
    END IF;
    -- The row of the name is ours since then.
    SELECT n.ends > 0, n.watched, n.record INTO v_lone, v_watched, have FROM "{schema}".{prefix}name n WHERE n.name = p_name;
    IF NOT v_lone THEN
        SELECT c.record INTO have FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = v_ticket;
    END IF;
    IF p_record <> '' AND have <> p_record AND have <> p_from THEN
        status := 'record';
        RETURN;
    END IF;
    IF v_lone THEN
        UPDATE "{schema}".{prefix}name n SET weight = CASE WHEN p_weight > 0 THEN least(n.weight, p_weight) ELSE n.weight END,
            record = CASE WHEN p_record <> '' THEN p_record ELSE n.record END
        WHERE n.name = p_name;
    ELSE
        UPDATE "{schema}".{prefix}claim c SET weight = CASE WHEN p_weight > 0 THEN least(c.weight, p_weight) ELSE c.weight END,
            record = CASE WHEN p_record <> '' THEN p_record ELSE c.record END
        WHERE c.name = p_name AND c.ticket = v_ticket;
        -- Once more, which wakes those who hold because of the change.
        PERFORM FROM "{schema}".{prefix}do('renew', p_name, p_id, '', NULL, '', '', 0, 0, p_ttl, p_wait, 0, 0, 0, false, false);
    END IF;
    IF v_watched > "{schema}".{prefix}now() THEN
        PERFORM pg_notify('{channel}', encode(p_name, 'hex'));
    END IF;
END
$stile$;

-- Deletes the rows of some names that were not entered for so many microseconds, and what is left there of claims that ran
-- out as long ago, without their tickets' going back.
CREATE OR REPLACE FUNCTION "{schema}".{prefix}clean(p_idle bigint, p_most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $stile$
DECLARE
    v_names bytea[]; v_floor bigint; v_count bigint;
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    v_dead bigint := least(v_now, v_now - p_idle); -- a claim that ran out before is in nobody's way
BEGIN
    SELECT array_agg(idle.name) INTO v_names FROM (
        SELECT n.name FROM "{schema}".{prefix}name n
        WHERE n.last < v_now - p_idle AND n.watched < v_now AND (n.ends = 0 OR n.ends + n.delay < v_dead)
            AND NOT EXISTS (SELECT FROM "{schema}".{prefix}claim c WHERE c.name = n.name AND c.ends + c.delay >= v_dead)
        LIMIT p_most FOR UPDATE OF n SKIP LOCKED
    ) idle;
    -- A new statement: it sees the claims that entered before their names were locked.
    WITH idle AS MATERIALIZED (
        SELECT n.name FROM "{schema}".{prefix}name n WHERE n.name = ANY (v_names)
            AND NOT EXISTS (SELECT FROM "{schema}".{prefix}claim c WHERE c.name = n.name AND c.ends + c.delay >= v_dead)
    ), left_behind AS (
        DELETE FROM "{schema}".{prefix}claim c USING idle WHERE c.name = idle.name
    ), deleted AS (
        DELETE FROM "{schema}".{prefix}name n USING idle WHERE n.name = idle.name RETURNING n.last
    ) SELECT max(d.last), count(*) INTO v_floor, v_count FROM deleted d;
    IF v_count > 0 THEN
        UPDATE "{schema}".{prefix}meta m SET floor = greatest(m.floor, v_floor);
    END IF;
    RETURN v_count;
END
$stile$;

-- Cleans if nobody has for so many microseconds, so that of many clients that come and go one does; -1 says that it need
-- not.
CREATE OR REPLACE FUNCTION "{schema}".{prefix}tidy(p_every bigint, p_idle bigint, p_most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $stile$
DECLARE
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    PERFORM FROM "{schema}".{prefix}meta m WHERE m.cleaned NOT BETWEEN v_now - p_every AND v_now FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN -1;
    END IF;
    UPDATE "{schema}".{prefix}meta m SET cleaned = v_now;
    RETURN "{schema}".{prefix}clean(p_idle, p_most);
END
$stile$;

DO $stile$
BEGIN
    -- Not where the row was deleted: it knows the highest ticket of names that were cleaned away.
    IF NOT EXISTS (SELECT FROM "{schema}".{prefix}meta) AND EXISTS (SELECT FROM "{schema}".{prefix}name) THEN
        RAISE EXCEPTION 'the table {prefix}meta was emptied' USING ERRCODE = 'STI02';
    END IF;
    INSERT INTO "{schema}".{prefix}meta AS m (one, version, floor, revision) VALUES (1, {version}, 0, {revision})
    ON CONFLICT (one) DO UPDATE SET revision = excluded.revision WHERE m.revision < excluded.revision;
END
$stile$;
