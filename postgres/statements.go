package postgres

// statements are those of the verbs.
type statements struct{ do, renew, amend, list, queue, waiting, mark, clean, tidy string }

// newStatements returns the statements for some tables. Renewing tells the server's id too, by an expression.
func newStatements(t tables, serverID string) statements {
	const (
		answer = `status, ticket, holds, lease, ahead, retry, have,
b_ticket, b_weight, b_holds, b_left, b_since, b_remaining, b_record`
		columns = `"{schema}".{prefix}now(), name, ticket, weight, capacity, since, ends, delay, told, departed, record`
		claims  = `SELECT name, ticket, weight, capacity, since, ends, delay, told, departed, record
FROM "{schema}".{prefix}claim
UNION ALL SELECT name, last, weight, capacity, since, ends, delay, true, false, record
FROM "{schema}".{prefix}name WHERE ends > 0`
		renew = ` FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])
WITH ORDINALITY c (name, id, ttl, wait, i), LATERAL "{schema}".{prefix}do('renew', c.name, c.id,
'', NULL, '', '', 0, 0, c.ttl, c.wait, 0, 0, 0, false, false) r ORDER BY c.i`
	)
	return statements{
		do: t.fill(`SELECT ` + answer + ` FROM "{schema}".{prefix}do(
$1::text, $2::bytea, $3::bytea, $4::bytea, $5::text, $6::bytea, $7::bytea,
$8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::boolean, $16::boolean)`),
		renew: t.fill(`SELECT r.status, r.lease, ` + serverID + renew),
		amend: t.fill(`SELECT status, lease, have, ` + serverID + ` FROM "{schema}".{prefix}amend(
$1::bytea, $2::bytea, $3::bigint, $4::bigint, $5::bigint, $6::bytea, $7::bytea)`),
		list: t.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims
WHERE name >= $1::bytea AND ($2::bytea IS NULL OR name < $2::bytea) ORDER BY name, ticket`),
		queue: t.fill(`SELECT ` + columns + ` FROM (` + claims + `) claims WHERE name = $1::bytea ORDER BY ticket`),
		waiting: t.fill(`SELECT w.i,
coalesce(c.told AND NOT c.departed AND c.ends > "{schema}".{prefix}now(), false), c.id IS NULL
FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) WITH ORDINALITY w (name, ticket, id, i)
LEFT JOIN "{schema}".{prefix}claim c ON c.name = w.name AND c.ticket = w.ticket AND c.id = w.id`),
		mark: t.fill(`INSERT INTO "{schema}".{prefix}name AS n (name, last, head, watched)
VALUES ($1::bytea, 0, 0, "{schema}".{prefix}now() + $2::bigint)
ON CONFLICT (name) DO UPDATE SET watched = greatest(n.watched, excluded.watched)`),
		clean: t.fill(`SELECT "{schema}".{prefix}clean($1::bigint, $2::integer)`),
		tidy:  t.fill(`SELECT "{schema}".{prefix}tidy($1::bigint, $2::bigint, $3::integer)`),
	}
}
