"""Tests of the guard on SQLite. Those on PostgreSQL, MySQL and MariaDB are Go tests, which drive marks.py."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable
from unittest import mock

from stile import guard

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "guard.json").read_text(encoding="utf-8"))
ERRORS = {"stale": guard.Stale, "not raised": guard.NotRaised, "no token": guard.NoToken, "invalid": guard.Invalid}


class Guarded(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = folder.name + "/data.db"
        self.connection = self.connect()
        self.connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER)")
        self.connection.commit()

    def connect(self, **keywords: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, timeout=0.05, **keywords)
        self.addCleanup(connection.close)
        return connection

    def wants(self, error: str, call: Callable[[], Any], about: object, newer: str | None = None) -> None:
        """Calls a function, which has to raise the error that a word of the vectors stands for."""
        if not error:
            call()
            return
        with self.assertRaises(ERRORS[error], msg=str(about)) as caught:
            call()
        if newer is not None:
            self.assertEqual(getattr(caught.exception, "newer"), int(newer), about)

    def test_names(self) -> None:
        table = guard.Table("sqlite")
        for i, name in enumerate(VECTORS["names"]["good"]):
            with table.guarded(self.connection, name, 1000 - i):
                pass
        with self.connection as connection:
            self.assertEqual(connection.execute("SELECT COUNT(*) FROM stile_guard").fetchone()[0], len(VECTORS["names"]["good"]))
        cursor = self.connection.cursor()
        for name in VECTORS["names"]["bad"] + ["\udcff"]:
            for call in (table.raise_token, table.check_token):
                self.wants("invalid", lambda: call(cursor, name, 1), name)
            self.wants("invalid", lambda: table.guarded(self.connection, name, 1), name)

    def test_identifiers(self) -> None:
        for name in VECTORS["identifiers"]["good"]:
            guard.Table("mysql", name)
        for name in VECTORS["identifiers"]["bad"]:
            self.wants("invalid", lambda: guard.Table("mysql", name), name)
            self.wants("invalid", lambda: guard.Column("postgres", "a", name, "b"), name)
            self.wants("invalid", lambda: guard.Column("postgres", "a", "b", name), name)
        self.wants("invalid", lambda: guard.Table("oracle"), "oracle")

    def test_tokens(self) -> None:
        for v in VECTORS["tokens"]:
            self.wants(v["error"], lambda: self.assertEqual(guard.parse_token(v["text"]), int(v["token"])), v)
        for v in VECTORS["judge"]:
            self.wants(v["error"], lambda: guard.judge("a", int(v["token"]), int(v["mark"])), v)
        cursor = self.connection.cursor()
        for token in (1.0, "1", True, 1 << 63):
            self.wants("invalid", lambda: guard.Table("sqlite").check_token(cursor, "a", token), token)  # type: ignore[arg-type]

    def test_schemas(self) -> None:
        for dialect, schemas in VECTORS["schemas"].items():
            for name, schema in schemas.items():
                self.assertEqual(guard.Table(dialect, name).schema, schema)

    def test_histories(self) -> None:
        table, column = guard.Table("sqlite"), guard.Column("sqlite", "account", "id", "fence")
        table.create(self.connection)
        for i, history in enumerate(VECTORS["histories"]):
            self.connection.execute("INSERT INTO account (id, balance) VALUES (?, 0)", (i,))
            self.connection.commit()
            for marks, key in ((table, f"history/{i}"), (column, i)):
                for transaction in history["transactions"]:
                    cursor = self.connection.cursor()
                    for step in transaction["steps"]:
                        call = marks.raise_token if step["do"] == "raise" else marks.check_token
                        self.wants(step["error"], lambda: call(cursor, key, int(step["token"])),
                                   (history["name"], marks, step), step.get("newer"))
                    getattr(self.connection, transaction["end"])()

    def test_a_late_write_is_refused(self) -> None:
        self.connection.execute("INSERT INTO account (id, balance) VALUES (1, 100)")
        self.connection.commit()
        other = self.connect()
        for marks, key in ((guard.Table("sqlite"), "account/1"), (guard.Column("sqlite", "account", "id", "fence"), 1)):
            with marks.guarded(self.connection, key, 5) as cursor:
                balance = cursor.execute("SELECT balance FROM account WHERE id = 1").fetchone()[0]
            with marks.guarded(other, key, 7) as cursor:
                cursor.execute("UPDATE account SET balance = balance + 50 WHERE id = 1")
            with self.assertRaises(guard.Stale):
                with marks.guarded(self.connection, key, 5) as cursor:
                    cursor.execute("UPDATE account SET balance = ? WHERE id = 1", (balance + 10,))
        self.assertEqual(other.execute("SELECT balance FROM account").fetchone()[0], 200)

    def test_an_error_of_the_block_undoes_the_raise(self) -> None:
        table = guard.Table("sqlite")
        with self.assertRaises(KeyError):
            with table.guarded(self.connection, "a", 9) as cursor:
                cursor.execute("INSERT INTO account (id) VALUES (9)")
                raise KeyError("a")
        with table.guarded(self.connection, "a", 1) as cursor:
            self.assertEqual(cursor.execute("SELECT COUNT(*) FROM account").fetchone()[0], 0)

    def test_nobody_raises_beside_an_open_transaction(self) -> None:
        table, other = guard.Table("sqlite"), self.connect()
        with table.guarded(self.connection, "a", 1):
            with self.assertRaises(sqlite3.OperationalError):
                with table.guarded(other, "a", 2):
                    pass
        with table.guarded(other, "a", 2):
            pass

    def test_connections(self) -> None:
        table = guard.Table("sqlite")
        self.wants("invalid", lambda: table.guarded(self.connect(isolation_level=None), "a", 1), "autocommit")
        self.connection.execute("INSERT INTO account (id) VALUES (1)")
        self.wants("invalid", lambda: table.guarded(self.connection, "a", 1), "an open transaction")

    def test_a_raise_without_a_mark_is_refused(self) -> None:
        cursor = mock.Mock(lastrowid=0)
        cursor.fetchall.return_value = []
        for dialect in ("mysql", "postgres", "sqlite"):
            self.wants("invalid", lambda: guard.Table(dialect).raise_token(cursor, "a", 1), dialect)
            self.assertRaises(guard.NoRow, guard.Column(dialect, "account", "id", "fence").raise_token, cursor, 1, 1)

    def test_a_commit_that_fails_is_rolled_back(self) -> None:
        table, reader, third = guard.Table("sqlite"), self.connect(), self.connect()
        table.create(self.connection)
        self.connection.executemany("INSERT INTO account (id) VALUES (?)", [(i,) for i in range(2)])
        self.connection.commit()
        rows = reader.execute("SELECT id FROM account")
        rows.fetchone()  # and not the second row, so that the read lock stays
        with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
            with table.guarded(self.connection, "a", 1):
                pass
        self.assertFalse(self.connection.in_transaction)
        rows.close()
        with table.guarded(third, "a", 1):
            pass

    def test_a_rollback_that_fails_hides_no_error(self) -> None:
        connection = mock.Mock(autocommit=False, in_transaction=False, isolation_level="", info=None)
        connection.get_autocommit.return_value = False
        connection.rollback.side_effect = OSError("the connection is closed")
        column = guard.Column("sqlite", "account", "id", "fence")
        connection.cursor().fetchall.return_value = [(2,)]
        with self.assertRaises(guard.Stale):
            with column.guarded(connection, 1, 1):
                pass

    def test_a_block_that_commits_is_checked_again(self) -> None:
        self.connection.execute("INSERT INTO account (id, balance) VALUES (1, 100)")
        self.connection.commit()
        other = self.connect()
        for marks, key in ((guard.Table("sqlite"), "account/1"), (guard.Column("sqlite", "account", "id", "fence"), 1)):
            with self.assertRaises(guard.Stale):
                with marks.guarded(self.connection, key, 5) as cursor:
                    self.connection.commit()
                    with marks.guarded(other, key, 7):
                        pass
                    cursor.execute("UPDATE account SET balance = 0 WHERE id = 1")
            self.assertEqual(other.execute("SELECT balance FROM account").fetchone()[0], 100)
            with marks.guarded(self.connection, key, 8) as cursor:
                self.connection.commit()  # and nobody else came
                cursor.close()

    def test_a_block_may_delete_its_row(self) -> None:
        self.connection.execute("INSERT INTO account (id, balance) VALUES (1, 100)")
        self.connection.commit()
        with guard.Column("sqlite", "account", "id", "fence").guarded(self.connection, 1, 5) as cursor:
            cursor.execute("DELETE FROM account WHERE id = 1")
        self.assertEqual(self.connect().execute("SELECT COUNT(*) FROM account").fetchone()[0], 0)

    def test_columns(self) -> None:
        missing = guard.Column("sqlite", "account", "id", "fence")
        for call in (missing.raise_token, missing.check_token):
            self.assertRaises(guard.NoRow, call, self.connection.cursor(), 99, 1)
        for kind in ("double precision", "varchar(20)", "text", "bigint", "decimal(20)"):
            self.connection.execute(f"CREATE TABLE typed (id INTEGER PRIMARY KEY, fence {kind})")
            self.connection.execute("INSERT INTO typed (id) VALUES (1)")
            self.connection.commit()
            column = guard.Column("sqlite", "typed", "id", "fence")
            for token in (7, 1 << 33, 1795343900235569):
                try:
                    with column.guarded(self.connection, 1, token):
                        pass
                except guard.Invalid:
                    self.assertNotEqual(kind, "bigint")
                    break
                self.assertRaises(guard.Stale, column.raise_token, self.connection.cursor(), 1, token - 1)
                self.connection.rollback()
            self.connection.execute("UPDATE typed SET fence = 'x'")
            self.wants("invalid", lambda: column.check_token(self.connection.cursor(), 1, 7), kind)
            self.connection.rollback()
            self.connection.execute("DROP TABLE typed")
            self.connection.commit()


if __name__ == "__main__":
    unittest.main()
