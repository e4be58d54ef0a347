-- What package sqldb says to SQLite. Each statement has a name; {prefix} begins the names of the tables.
-- Times are microseconds on the lease clock of the host, tickets wall-clock microseconds or one more than the last.

-- name: create meta
CREATE TABLE IF NOT EXISTS {prefix}meta (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    version     INTEGER NOT NULL, -- of this schema
    incarnation TEXT    NOT NULL, -- drawn when the tables were made
    boot        TEXT    NOT NULL, -- no claim is of a later boot; empty: the wall clock times leases; unknown: no id to trust
    last        INTEGER NOT NULL, -- highest ticket given, over all names
    seen        INTEGER NOT NULL DEFAULT 0 -- what the lease clock showed at a write, at most a second before the last one
) STRICT

-- name: create claim
CREATE TABLE IF NOT EXISTS {prefix}claim (
    ticket   INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL COLLATE BINARY,
    id       TEXT    NOT NULL,
    client   TEXT    NOT NULL,
    owner    TEXT    NOT NULL,
    record   TEXT    NOT NULL,
    weight   INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    ends     INTEGER NOT NULL,
    delay    INTEGER NOT NULL,
    told     INTEGER NOT NULL,
    departed INTEGER NOT NULL
) STRICT

-- name: create index
CREATE INDEX IF NOT EXISTS {prefix}claim_name ON {prefix}claim (name)

-- name: create row
INSERT INTO {prefix}meta (one, version, incarnation, boot, last, seen) VALUES (1, ?, ?, ?, 0, ?)

-- name: schema
SELECT version FROM {prefix}meta

-- name: from 1: state
SELECT m.boot, coalesce(max(max(c.since, c.ends - ?1)), 0), coalesce(sum(c.ends > ?2), 0)
FROM {prefix}meta AS m LEFT JOIN {prefix}claim AS c ON true

-- name: from 1: add
ALTER TABLE {prefix}meta ADD COLUMN seen INTEGER NOT NULL DEFAULT 0

-- name: from 1: fill
UPDATE {prefix}meta SET version = 2, seen = ?

-- name: check meta
PRAGMA integrity_check({prefix}meta)

-- name: check claim
PRAGMA integrity_check({prefix}claim)

-- name: known
SELECT count(*) FROM sqlite_schema WHERE name = ?

-- name: begin
BEGIN IMMEDIATE

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: write back
PRAGMA wal_checkpoint(PASSIVE)

-- name: write back the rest
PRAGMA wal_checkpoint(FULL)

-- name: meta
SELECT version, incarnation, boot, last, seen FROM {prefix}meta

-- name: mark
UPDATE {prefix}meta SET boot = ?, last = ?, seen = ?

-- name: void
DELETE FROM {prefix}claim

-- name: queue
SELECT name, ticket, id, client, owner, record, weight, capacity, since, ends, delay, told, departed
FROM {prefix}claim WHERE name = ? ORDER BY ticket

-- name: state
SELECT m.version, m.incarnation, m.boot, m.last, m.seen,
    coalesce(c.name, ?1), coalesce(c.ticket, 0), coalesce(c.id, ?2), coalesce(c.client, ?2), coalesce(c.owner, ?2),
    coalesce(c.record, ?2), coalesce(c.weight, 0), coalesce(c.capacity, 0), coalesce(c.since, 0), coalesce(c.ends, 0),
    coalesce(c.delay, 0), coalesce(c.told, 0), coalesce(c.departed, 0)
FROM {prefix}meta AS m LEFT JOIN {prefix}claim AS c ON c.name = ?1 WHERE m.one = 1 ORDER BY c.ticket

-- name: queues
SELECT name, ticket, id, client, owner, record, weight, capacity, since, ends, delay, told, departed
FROM {prefix}claim WHERE name >= ? ORDER BY name, ticket

-- name: insert
INSERT INTO {prefix}claim (name, ticket, id, client, owner, record, weight, capacity, since, ends, delay, told, departed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update
UPDATE {prefix}claim SET ends = ?, told = ?, departed = ? WHERE ticket = ?

-- name: amend
UPDATE {prefix}claim SET ends = ?, told = ?, departed = ?, weight = ?, record = ? WHERE ticket = ?

-- name: delete
DELETE FROM {prefix}claim WHERE ticket = ?

-- Of the claims before one that waits, no more than two are counted: whether it is the next is all that matters.
-- name: one waits
SELECT m.version, m.incarnation, m.boot, m.last, m.seen,
    0, coalesce(c.id, ?2), coalesce(c.ends, 0), coalesce(c.told AND NOT c.departed, 0),
    (SELECT count(*) FROM (SELECT 1 FROM {prefix}claim AS a WHERE a.name = c.name AND a.ticket < c.ticket LIMIT 2))
FROM {prefix}meta AS m LEFT JOIN {prefix}claim AS c ON c.ticket = ?1 WHERE m.one = 1

-- name: some wait
SELECT m.version, m.incarnation, m.boot, m.last, m.seen,
    w.key, coalesce(c.id, ?2), coalesce(c.ends, 0), coalesce(c.told AND NOT c.departed, 0),
    (SELECT count(*) FROM (SELECT 1 FROM {prefix}claim AS a WHERE a.name = c.name AND a.ticket < c.ticket LIMIT 2))
FROM {prefix}meta AS m CROSS JOIN json_each(?1) AS w LEFT JOIN {prefix}claim AS c ON c.ticket = w.value WHERE m.one = 1

-- name: kept
SELECT w.key, coalesce((SELECT min(a.ends) FROM {prefix}claim AS a WHERE a.name = c.name AND a.ticket < c.ticket AND a.departed), 0)
FROM json_each(?) AS w CROSS JOIN {prefix}claim AS c ON c.ticket = w.value
WHERE (SELECT a.told FROM {prefix}claim AS a WHERE a.name = c.name AND a.ticket < c.ticket ORDER BY a.ticket DESC LIMIT 1)

-- name: version
PRAGMA data_version
