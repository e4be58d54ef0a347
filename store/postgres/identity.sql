-- The store's id, by which locks are ordered that are joined over several stores. No claim is in this table, so programs that
-- do not know it work beside those that do. Whoever comes first draws the id, and it stays.
CREATE TABLE IF NOT EXISTS "{schema}".{prefix}id (
    one integer PRIMARY KEY CHECK (one = 1),
    id  text    NOT NULL
);
