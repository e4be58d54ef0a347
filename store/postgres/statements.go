package postgres

// statements are the statements of the verbs.
type statements struct {
	do, enter, leave, enters, leaves, breaks, again, renew, amend, list, queue, waiting, mark, clean, tidy string
}

// do calls the function. The other statements call it too, after they have tried to do without.
const (
	do = `"{schema}".{prefix}do(
$1::text, $2::bytea, $3::bytea, $4::bytea, $5::text, $6::bytea, $7::bytea,
$8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::boolean, $16::boolean)`
	elseEnter = `"{schema}".{prefix}do('enter', $1::bytea, $2::bytea, $3::bytea, $4::text, $5::bytea, $6::bytea,
$7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, -1, 0, $12::boolean, $13::boolean)`
	elseLeave = `"{schema}".{prefix}do('leave', $1::bytea, $2::bytea, '', NULL, '', '', 0, 0, 0, 0, 0, -1, 0, false, false)`
)

// A lone claim enters and leaves by one update of its name's row, under the same conditions as in the function: the row
// alone decides, and is read again after a wait for it. Otherwise nothing is changed, and the same statement calls the
// function. The function sees the row as this update left it: locked, and made if it was missing. An INSERT of an existing
// row finds it by the index, whatever the planner knew of the table when it made the plan; an UPDATE might read all names. A
// lone claim holds, and needs no channel.
//
// Without this short way, a lock and unlock takes 1.4 to 1.75 times the server's processor. Over a link with a round trip of
// 4.8 ms a client then makes 0.89 to 0.98 of the locks, and on loopback 0.72 to 0.80.
const (
	aloneFirst = `WITH lone AS (
INSERT INTO "{schema}".{prefix}name AS n (name, last, head, watched, since) VALUES ($1::bytea, 0, 0, 0, "{schema}".{prefix}now())
ON CONFLICT (name) DO UPDATE SET `
	aloneEnters = `last = greatest(n.last + 1, CASE WHEN excluded.since < 1::bigint << 52 THEN excluded.since ELSE 0 END),
ends = excluded.since + $9::bigint, id = $2::bytea, client = $3::bytea, channel = '', owner = $5::bytea,
record = $6::bytea, weight = $7::bigint, capacity = $8::bigint, since = excluded.since, delay = $11::bigint
WHERE n.last > 0 AND NOT n.queued AND n.ends = 0 AND n.watched <= excluded.since
AND current_setting('transaction_isolation') = 'read committed'
RETURNING n.last,
CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN set_config('synchronous_commit', 'on', true) END`
	aloneLeaves = `ends = 0
WHERE n.ends > excluded.since AND n.id = $2::bytea AND n.watched <= excluded.since
AND current_setting('transaction_isolation') = 'read committed'
RETURNING n.last, set_config('synchronous_commit', 'off', true)`
	aloneElse = `)
SELECT lone.last, CASE WHEN lone.last IS NULL THEN `
	aloneFrom = ` FROM (VALUES (1)) one LEFT JOIN lone ON lone.last > 0`
)

// newStatements returns the statements for some tables. Renewing also returns the server's id, by an expression.
func newStatements(t tables, serverID string) statements {
	const (
		answer = `status, ticket, holds, lease, ahead, retry, have,
b_ticket, b_weight, b_holds, b_left, b_since, b_remaining, b_record`
		columns = `"{schema}".{prefix}now(), name, ticket, weight, capacity, since, ends, delay, told, departed, record`
		claims  = `SELECT name, ticket, weight, capacity, since, ends, delay, told, departed, record
FROM "{schema}".{prefix}claim
UNION ALL SELECT name, last, weight, capacity, since, ends, delay, true, false, record
FROM "{schema}".{prefix}name WHERE ends > 0`
		before = `SELECT a.told FROM "{schema}".{prefix}claim a WHERE a.name = c.name AND a.ticket < c.ticket`
		renew  = ` FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])
WITH ORDINALITY c (name, id, ttl, wait, i), LATERAL "{schema}".{prefix}do('renew', c.name, c.id,
'', NULL, '', '', 0, 0, c.ttl, c.wait, 0, 0, 0, false, false) r ORDER BY c.i`
	)
	return statements{
		do:    t.fill(`SELECT ` + answer + ` FROM ` + do),
		enter: t.fill(aloneFirst + aloneEnters + aloneElse + elseEnter + ` END` + aloneFrom),
		leave: t.fill(aloneFirst + aloneLeaves + aloneElse + `(` + elseLeave + `).status ELSE 'ok' END` + aloneFrom),
		enters: t.fill(`SELECT i, ticket FROM "{schema}".{prefix}enter_alone($1::bytea[], $2::bytea[], $3::bytea[], $4::text[],
$5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])`),
		leaves: t.fill(`SELECT i, 0::bigint FROM "{schema}".{prefix}leave_alone($1::bytea[], $2::bytea[])`),
		breaks: t.fill(`SELECT ` + answer + `, CASE WHEN status = 'ok' THEN
pg_notify('{channel}', '` + brokenMark + `' || encode($1::bytea, 'hex') || ' ' || b_ticket || ' ' || $3::text) END
FROM "{schema}".{prefix}do('break', $1::bytea, '', '', NULL, '', '', 0, 0, 0, 0, 0, 0, $2::bigint, false, false)`),
		again: t.fill(`SELECT pg_notify(channel, '0 ' || encode(id, 'hex')) FROM (SELECT id, channel FROM "{schema}".{prefix}claim
WHERE name = $1::bytea AND NOT told AND ends > "{schema}".{prefix}now() ORDER BY ticket LIMIT 1) first WHERE channel <> ''`),
		renew: t.fill(`SELECT r.status, r.lease, r.holds, ` + serverID + renew),
		amend: t.fill(`SELECT status, lease, have, ` + serverID + ` FROM "{schema}".{prefix}amend(
$1::bytea, $2::bytea, $3::bigint, $4::bigint, $5::bigint, $6::bytea, $7::bytea)`),
		list: t.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims
WHERE name >= $1::bytea AND ($2::bytea IS NULL OR name < $2::bytea) ORDER BY name, ticket`),
		queue: t.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims WHERE name = $1::bytea ORDER BY ticket`),
		// If the claim right before another holds, all claims before it hold. After a kept claim has ended, the next claim
		// enters again.
		waiting: t.fill(`SELECT w.i, coalesce(c.told AND NOT c.departed AND c.ends > "{schema}".{prefix}now(), false),
c.id IS NULL OR coalesce((` + before + ` ORDER BY a.ticket DESC LIMIT 1), false)
	AND EXISTS (` + before + ` AND a.departed AND a.ends <= "{schema}".{prefix}now())
FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) WITH ORDINALITY w (name, ticket, id, i)
LEFT JOIN "{schema}".{prefix}claim c ON c.name = w.name AND c.ticket = w.ticket AND c.id = w.id`),
		mark: t.fill(`INSERT INTO "{schema}".{prefix}name AS n (name, last, head, watched)
VALUES ($1::bytea, 0, 0, "{schema}".{prefix}now() + $2::bigint)
ON CONFLICT (name) DO UPDATE SET watched = greatest(n.watched, excluded.watched)`),
		clean: t.fill(`SELECT "{schema}".{prefix}clean($1::bigint, $2::integer)`),
		tidy:  t.fill(`SELECT "{schema}".{prefix}tidy($1::bigint, $2::bigint, $3::integer)`),
	}
}
