-- The tables and functions in which package postgres keeps locks. "{schema}" and {prefix} stand for where and how they
-- are called, {version} for the version of this schema, {channel} for the channel of watches.
--
-- Times are microseconds of the server's clock. Names, ids and records are bytes, so that no encoding, collation or
-- normal form makes one out of two.

CREATE TABLE "{schema}".{prefix}meta (
    one     integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL, -- of this schema
    floor   bigint  NOT NULL  -- no name that was cleaned away had a higher ticket
);

-- One row for each name in use. Whoever changes the queue of a name locks its row first, so changes come one by one and
-- tickets are in the order of commits. A row whose name is idle is deleted when floor has its last ticket.
--
-- A claim that enters an empty queue is kept in the row of its name, with the last ticket, for as long as no other
-- enters. One update that touches no index puts it there, and one takes it out.
CREATE TABLE "{schema}".{prefix}name (
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

CREATE TABLE "{schema}".{prefix}claim (
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

CREATE FUNCTION "{schema}".{prefix}now() RETURNS bigint LANGUAGE sql VOLATILE
AS $stile$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $stile$;

-- Does one thing to the queue of a name: enter, renew, leave or break, as driver.Queue does. A single statement cannot
-- do it, since it sees the queue as it was before it waited for the row of the name; each statement of a function sees
-- what was committed before the statement began.
CREATE FUNCTION "{schema}".{prefix}do(
    p_verb text, p_name bytea, p_id bytea, p_client bytea, p_channel text, p_owner bytea, p_record bytea,
    p_weight bigint, p_capacity bigint, p_ttl bigint, p_wait bigint, p_delay bigint, p_keep bigint,
    p_ticket bigint, p_try boolean, p_reclaim boolean,
    OUT status text, -- ok, gone, capacity
    OUT ticket bigint, OUT holds boolean, OUT lease bigint, OUT ahead bigint, OUT retry bigint, OUT have bigint,
    OUT b_ticket bigint, OUT b_weight bigint, OUT b_holds boolean, OUT b_left boolean, OUT b_since bigint,
    OUT b_remaining bigint, OUT b_record bytea
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $stile$
DECLARE
    v_last bigint; v_head bigint; v_watched bigint; v_queued boolean; v_lone boolean; -- the row of the name
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    e record; v_gone bigint; v_live boolean; v_fits boolean; -- the claim that is looked at
    v_open boolean; v_room bigint;    -- whether all claims so far hold, and what they leave of the capacity
    v_count bigint; v_first bigint;   -- claims so far, and when the first of them goes
    v_ahead_first bigint;             -- the same for those ahead of the claim that is asked for
    b record; v_b_holds boolean;      -- the claim at the head, or the one that is broken
    v_front bigint;                   -- ticket of the claim at the head
    v_rest_weight bigint; v_rest_capacity bigint; -- what a new claim would join
    v_found boolean; v_dead boolean; v_ends bigint; v_removed bigint; v_kept bigint;
    v_expired bigint[]; v_woken bigint[]; v_reclaimed bigint[];
    v_new boolean := false; v_changed boolean := false; v_commit text;
BEGIN
    status := 'gone'; ticket := 0; holds := false; lease := 0; ahead := 0; retry := 0; have := 0;
    b_ticket := 0; b_weight := 0; b_holds := false; b_left := false; b_since := 0; b_remaining := 0; b_record := '';
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a lock is taken in a transaction of its own that is read committed' USING ERRCODE = 'STI01';
    END IF;

    -- A claim that is or comes to be alone. All that these decide by is in the row that they change, which is read anew
    -- after a wait for it. A time from before that wait is good enough: nobody else's lease is judged by it.
    IF p_verb = 'enter' AND p_ticket = 0 THEN
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
        FROM "{schema}".{prefix}name n WHERE n.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
        IF p_verb <> 'enter' OR p_ticket <> 0 THEN
            RETURN;
        END IF;
        INSERT INTO "{schema}".{prefix}name (name, last, head, watched) VALUES (p_name, 0, 0, 0) ON CONFLICT DO NOTHING;
    END LOOP;
    IF v_last = 0 THEN -- read after the row was made: whoever deleted an earlier one has committed the floor
        SELECT m.floor INTO v_last FROM "{schema}".{prefix}meta m;
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
        v_open := true; v_room := NULL; v_count := 0; v_first := NULL; v_front := NULL; v_rest_weight := 0;
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
                    v_ahead_first := v_first;
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
            v_first := least(v_first, v_gone);
            IF v_fits THEN
                v_room := v_room - e.weight;
            ELSE
                v_open := false;
            END IF;
            IF p_reclaim AND e.owner = p_owner AND e.client <> p_client THEN
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
            status := 'ok'; ahead := v_count; v_ahead_first := v_first;
        ELSIF v_reclaimed <> '{}' THEN
            DELETE FROM "{schema}".{prefix}claim c WHERE c.name = p_name AND c.ticket = ANY (v_reclaimed);
            p_reclaim := false; v_changed := true;
            CONTINUE scan;
        ELSE
            -- The clock makes tickets rise even where the counter was lost: a standby that was behind, an old copy.
            ticket := greatest(v_last + 1, CASE WHEN v_now < 1::bigint << 52 THEN v_now ELSE 0 END);
            holds := v_rest_weight + p_weight <= p_capacity; ahead := v_count; v_ends := v_now; v_ahead_first := v_first;
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
        b_since := v_now - b.since; b_remaining := b.ends - v_now; retry := coalesce(v_ahead_first - v_now, 0);
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

-- Deletes the rows of some names that were not entered for so many microseconds, without their tickets' going back.
CREATE FUNCTION "{schema}".{prefix}clean(p_idle bigint, p_most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $stile$
DECLARE
    v_names bytea[]; v_floor bigint; v_count bigint;
    v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    SELECT array_agg(idle.name) INTO v_names FROM (
        SELECT n.name FROM "{schema}".{prefix}name n WHERE n.last < v_now - p_idle AND n.watched < v_now AND n.ends = 0
        LIMIT p_most FOR UPDATE SKIP LOCKED
    ) idle;
    -- A new statement: it sees the claims that entered before their names were locked.
    WITH deleted AS (
        DELETE FROM "{schema}".{prefix}name n WHERE n.name = ANY (v_names)
            AND NOT EXISTS (SELECT FROM "{schema}".{prefix}claim c WHERE c.name = n.name)
        RETURNING n.last
    ) SELECT max(d.last), count(*) INTO v_floor, v_count FROM deleted d;
    IF v_count > 0 THEN
        UPDATE "{schema}".{prefix}meta m SET floor = greatest(m.floor, v_floor);
    END IF;
    RETURN v_count;
END
$stile$;

INSERT INTO "{schema}".{prefix}meta (one, version, floor) VALUES (1, {version}, 0);
