"""Makes a database refuse the late write of a holder that was paused until its lease ran out.

    from stile import Lock
    from stile.guard import Table

    marks = Table("sqlite")
    with Lock("orders/42", url) as lock, marks.guarded(connection, "orders/42", lock.token) as cursor:
        cursor.execute("UPDATE orders SET state = 'shipped' WHERE id = 42")

A guard keeps a mark for each resource: the highest token that it was shown. Raise shows a token, before the holder's first
read, and shuts out all earlier holders. Check finds out in a later transaction whether the token is still the mark. The marks
of Table and Column are the same as those of the package guard for Go, so programs in both languages may share them.

connection is one of a DB-API driver for PostgreSQL, for MySQL or MariaDB, or for SQLite 3.35 or newer, without autocommit:
psycopg2, psycopg, PyMySQL, mysqlclient, sqlite3 and others whose parameters are written %s, or ? for SQLite. A connection in
an open transaction is refused. pg8000 and others for PostgreSQL without connection.info do not show one: commit before.
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import contextmanager, suppress
from typing import Any, Callable, ContextManager, Iterator

__all__ = ["Column", "GuardError", "Invalid", "NoRow", "NoToken", "NotRaised", "Stale", "Table", "judge", "parse_token"]

_MOST = (1 << 63) - 1  # the largest token
_DIALECTS = ("postgres", "mysql", "sqlite")
_IN_TRANSACTION = 1568  # MySQL's and MariaDB's ER_CANT_CHANGE_TX_CHARACTERISTICS
_ROUNDED = -1  # the mark that PostgreSQL returns if the column's type rounds


class GuardError(Exception):
    """The base of the errors of this module. After each of them, roll back: the resource is unchanged."""


class Stale(GuardError):
    """A later holder was here. Stop: the data that you read is out of date."""

    def __init__(self, resource: str, token: int, newer: int):
        super().__init__(f"{resource!r}: token {token} is stale: {newer} came before it")
        self.resource, self.token, self.newer = resource, token, newer


class NotRaised(GuardError):
    """The token was not raised here, or the mark was lost. Raise, and read again."""


class NoToken(GuardError):
    """The token is not positive: the store of the lock has no fencing."""


class Invalid(GuardError):
    """A resource's name, an identifier, a token, a column or a connection cannot be used."""


class NoRow(GuardError):
    """There is no row with the key."""


def judge(resource: str, token: int, mark: int) -> None:
    """Compares a token with a resource's mark, 0 if it has none, as check_token does. The errors are Stale and NotRaised."""
    if mark > token:
        raise Stale(resource, token, mark)
    if mark < token:
        raise NotRaised(f"{resource!r}: the token {token} was not raised, and the mark is {mark}")


def parse_token(text: str) -> int:
    """Reads a token in decimal, such as the text of STILE_TOKEN. The errors are NoToken for an empty text, and Invalid."""
    if not text:
        raise NoToken("the text of the token is empty")
    if not re.fullmatch("[1-9][0-9]{0,18}", text) or int(text) > _MOST:
        raise Invalid(f"the token {text[:40]!r} is not a decimal number from 1 to 2^63-1")
    return int(text)


def _valid(resource: str) -> None:
    try:
        size = len(resource.encode())
    except UnicodeEncodeError:
        raise Invalid("the resource's name is not valid UTF-8") from None
    if not 0 < size <= 255 or any(unicodedata.category(c) == "Cc" for c in resource):
        raise Invalid(f"the resource's name {resource[:80]!r} is not text of up to 255 bytes without control characters")


def _quoted(dialect: str, name: str) -> str:
    parts = name.split(".")
    if len(parts) > 2 or not all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,62}", part) for part in parts):
        raise Invalid(f"the identifier {name[:80]!r} is not made of letters, digits and _, with a schema and a dot before it")
    mark = "`" if dialect == "mysql" else '"'
    return ".".join(mark + part + mark for part in parts)


def _autocommit(connection: Any) -> bool:
    own = getattr(connection, "get_autocommit", None)
    if (own() if own else getattr(connection, "autocommit", False)) is True:
        return True
    return getattr(connection, "isolation_level", "") is None and hasattr(connection, "in_transaction")


def _open(dialect: str, connection: Any) -> bool | None:
    """Reports whether the connection is in a transaction, None if the driver does not show it."""
    if dialect == "mysql":  # the status that drivers keep does not show a transaction that has only read
        cursor = connection.cursor()
        try:
            cursor.execute("SET TRANSACTION READ WRITE")  # for the next transaction; inside one it is refused
        except Exception as error:
            if error.args[:1] != (_IN_TRANSACTION,):
                raise
            return True
        finally:
            cursor.close()
        return False
    shown = getattr(connection, "in_transaction", None)
    status = getattr(getattr(connection, "info", None), "transaction_status", None) if shown is None else shown
    return None if status is None else bool(status)


def _idle(dialect: str, connection: Any) -> None:
    """Refuses a connection that would commit the raise at once, or whose transaction has read already."""
    if _autocommit(connection):
        raise Invalid("the connection is in autocommit mode: a guard needs a transaction")
    if _open(dialect, connection):
        raise Invalid("the connection is in a transaction: commit it first, since the raise comes before the first read")


class _Fence:
    """The statements that work on the marks of one table. They lock the mark's row until the transaction ends."""

    def __init__(self, dialect: str, table: str, token: str):
        if dialect not in _DIALECTS:
            raise Invalid(f"the dialect is one of {', '.join(_DIALECTS)}, not {dialect!r}")
        self._dialect, self._table, self._token = dialect, table, token
        self._at, self._lock = "%s", " FOR UPDATE" if dialect == "mysql" else " FOR NO KEY UPDATE"
        if dialect == "sqlite":
            self._at, self._lock = "?", ""
        self._wide = dialect != "mysql"  # tokens fit into the column; the other databases refuse misfits
        self._raise = self._check = ""

    def _exact(self, column: str) -> str:
        if self._dialect != "postgres":
            return column
        return f"CASE WHEN pg_typeof({column} + 0) = 'double precision'::regtype THEN {_ROUNDED} ELSE {column}::bigint END"

    def _number(self, cursor: Any, text: str, arguments: tuple[Any, ...], inserted: bool = False) -> int | None:
        """Runs a statement and returns the number that it yields, None without a row."""
        cursor.execute(text, arguments)
        if inserted:
            return cursor.lastrowid or None
        rows = cursor.fetchall()  # to the end: SQLite cannot commit before
        if not rows:
            return None
        number = rows[0][0]
        if isinstance(number, (float, str, bytes)) or int(number) != number:
            raise Invalid(f"the column {self._token} holds {number!r}: it must be a 64-bit integer")
        return int(number)

    def _raised(self, cursor: Any, resource: str, arguments: tuple[Any, ...], token: int) -> bool:
        mark = self._number(cursor, self._raise, arguments, self._dialect == "mysql")
        if mark is None:
            return False
        alter = f"fences nothing: ALTER TABLE {self._table}"
        if mark == _ROUNDED:
            raise Invalid(f"the column {self._token}, where PostgreSQL rounds tokens, {alter} ALTER {self._token} TYPE bigint")
        if mark > token:
            raise Stale(resource, token, mark)
        if mark < token:
            raise Invalid(f"the column {self._token} holds {mark} where {token} was written: it must be a 64-bit integer")
        if not self._wide:
            schema, dot, table = self._table.rpartition(".")
            text = ("SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_NAME = %s AND COLUMN_NAME = %s"
                    " AND DATA_TYPE <> 'bigint' AND TABLE_SCHEMA = " + ("%s" if dot else "DATABASE()"))
            if self._number(cursor, text, (table, self._token, schema) if dot else (table, self._token)):
                raise Invalid(f"the column {self._token}, in which MySQL cuts tokens, {alter} MODIFY {self._token} BIGINT")
            self._wide = True
        return True

    def _keeps(self, cursor: Any) -> None:
        """Refuses a cursor whose statements keep no lock of the mark's row, since each one is committed at once."""
        connection = getattr(cursor, "connection", None)
        if connection is not None and _autocommit(connection) and not _open(self._dialect, connection):
            raise Invalid("the connection is in autocommit mode, and its driver shows no transaction: begin one")

    @contextmanager
    def _guarded(self, connection: Any, raises: Callable[[Any], None], checks: Callable[[Any], None]) -> Iterator[Any]:
        _idle(self._dialect, connection)
        cursor = connection.cursor()
        try:
            raises(cursor)
            yield cursor
            last = connection.cursor()  # the block may have closed its own
            try:
                checks(last)  # since a commit or DDL in the block ends the transaction of the raise
            finally:
                last.close()
            connection.commit()
        except BaseException:
            with suppress(Exception):  # a connection that is lost; the first error says more
                connection.rollback()
            raise
        finally:
            cursor.close()


def _positive(token: int) -> None:
    if type(token) is not int or token > _MOST:
        raise Invalid(f"a token is an int below 2^63, not {token!r}")
    if token <= 0:
        raise NoToken(f"{token} is not the token of a lease")


class Table(_Fence):
    """Keeps the marks of resources in a table of the same database, one row for each resource.

    dialect is postgres, mysql, also for MariaDB, or sqlite. The name of the table may have a schema before it. A resource's
    name is text of up to 255 bytes without control characters. Use the tokens of only one lock name for a resource, and not of
    readers or permits. Several threads may use a Table at once, each with its own connection.
    """

    def __init__(self, dialect: str, name: str = "stile_guard"):
        super().__init__(dialect, name, "token")
        table, at = _quoted(dialect, name), self._at
        self._probe, self._made = f"SELECT token FROM {table} WHERE 1 = 0", False
        self._check = f"SELECT token FROM {table} WHERE resource = {at}{self._lock}"
        if dialect == "postgres":
            columns = '(resource text COLLATE "C" PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))'
            self._raise = (f"INSERT INTO {table} AS g (resource, token) VALUES ({at}, {at}) ON CONFLICT (resource) DO UPDATE"
                           f" SET token = GREATEST(g.token, EXCLUDED.token) RETURNING {self._exact('token')}")
        elif dialect == "mysql":  # resources are bytes: every collation of text takes some names for the same
            columns = "(resource varbinary(255) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB"
            self._raise = (f"INSERT INTO {table} (resource, token) VALUES ({at}, LAST_INSERT_ID({at}))"
                           f" ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, {at}))")
        else:
            columns = "(resource TEXT PRIMARY KEY, token INTEGER NOT NULL CHECK (token > 0)) WITHOUT ROWID"
            self._raise = (f"INSERT INTO {table} AS g (resource, token) VALUES ({at}, {at}) ON CONFLICT (resource) DO UPDATE"
                           " SET token = max(g.token, excluded.token) RETURNING token")
            self._check = f"UPDATE {table} SET token = token WHERE resource = {at} RETURNING token"  # waits for the write lock
        self.schema = f"CREATE TABLE IF NOT EXISTS {table} {columns}"
        """The SQL that creates the table. A user of the guard needs SELECT, INSERT and UPDATE on it."""

    def create(self, connection: Any) -> None:
        """Creates the table unless it exists. Many processes may do so at once."""
        if self._made:
            return
        _idle(self._dialect, connection)
        if not self._there(connection):
            cursor = connection.cursor()
            try:
                cursor.execute(self.schema)
                connection.commit()
            except BaseException as error:
                connection.rollback()
                if not isinstance(error, Exception) or not self._there(connection):  # of several creators, some get an error
                    raise
            finally:
                cursor.close()
        self._made = True

    def _there(self, connection: Any) -> bool:
        cursor = connection.cursor()
        try:
            cursor.execute(self._probe)
            cursor.fetchall()
            return True
        except Exception:  # each driver has classes of its own; create raises what else is wrong
            return False
        finally:
            cursor.close()
            connection.rollback()

    def guarded(self, connection: Any, resource: str, token: int) -> ContextManager[Any]:
        """Raises the token in a new transaction, and yields a cursor in it: a context manager. Prefer it to the other methods.

        No earlier holder can change the data that the block reads. At its end the transaction is committed together with the
        mark; an error rolls both back. The token is checked again before the commit, since a commit in the block, or DDL of
        MySQL, ends the transaction of the raise. After an error of the commit, find out whether it was committed. The table is
        created if it is missing.
        """
        _valid(resource)
        _positive(token)
        self.create(connection)
        return self._guarded(connection, lambda cursor: self.raise_token(cursor, resource, token),
                             lambda cursor: self.check_token(cursor, resource, token))

    def raise_token(self, cursor: Any, resource: str, token: int) -> None:
        """Shows a token to a resource in the cursor's transaction, before everything that the transaction reads.

        Other transactions that raise or check wait for the end of this one. The errors are Stale, NoToken and Invalid.
        """
        _valid(resource)
        _positive(token)
        self._keeps(cursor)
        key = self._key(resource)
        arguments = (key, token, token) if self._dialect == "mysql" else (key, token)
        if not self._raised(cursor, resource, arguments, token):
            raise Invalid(f"the driver returned no mark of {resource!r}: whether the token is stale is unknown")

    def check_token(self, cursor: Any, resource: str, token: int) -> None:
        """Finds out in the cursor's transaction whether a token that was raised in an earlier one is still the mark.

        The errors are Stale, NotRaised, NoToken and Invalid.
        """
        _valid(resource)
        _positive(token)
        self._keeps(cursor)
        judge(resource, token, self._number(cursor, self._check, (self._key(resource),)) or 0)

    def _key(self, resource: str) -> Any:
        return resource.encode() if self._dialect == "mysql" else resource  # in no charset of the connection


class Column(_Fence):
    """Keeps the mark of each row of a table in the column token of that row, a 64-bit integer; NULL and 0 are no mark.

    The column key, which must be unique, identifies the rows.
    """

    def __init__(self, dialect: str, table: str, key: str, token: str):
        super().__init__(dialect, table, token)
        name, column, at = _quoted(dialect, table), _quoted(dialect, token), self._at
        where, mark = f" WHERE {_quoted(dialect, key)} = {at}", f"COALESCE({column}, 0)"
        self._check = f"SELECT {mark} FROM {name}{where}{self._lock}"
        if dialect == "postgres":
            self._raise = (f"UPDATE {name} SET {column} = GREATEST({mark}, CAST({at} AS bigint)){where}"
                           f" RETURNING {self._exact(column)}")
        elif dialect == "mysql":
            self._raise = f"UPDATE {name} SET {column} = LAST_INSERT_ID(GREATEST({mark}, {at})){where}"
        else:
            self._raise = f"UPDATE {name} SET {column} = max({mark}, {at}){where} RETURNING {column}"
            self._check = f"UPDATE {name} SET {column} = {column}{where} RETURNING {mark}"

    def guarded(self, connection: Any, key: Any, token: int) -> ContextManager[Any]:
        """Does what Table.guarded does, for the row with the key. The error is NoRow if it is missing."""
        def checks(cursor: Any) -> None:
            with suppress(NoRow):  # the block may delete its row
                self.check_token(cursor, key, token)

        return self._guarded(connection, lambda cursor: self.raise_token(cursor, key, token), checks)

    def raise_token(self, cursor: Any, key: Any, token: int) -> None:
        """Shows a token to a row, as Table.raise_token does. The error is NoRow if the row is missing."""
        _positive(token)
        self._keeps(cursor)
        if not self._raised(cursor, f"{self._table}/{key}", (token, key), token):
            raise NoRow(f"the table {self._table} has no row {key!r}")

    def check_token(self, cursor: Any, key: Any, token: int) -> None:
        """Compares a token with the mark of a row, as Table.check_token does. The error is NoRow if the row is missing."""
        _positive(token)
        self._keeps(cursor)
        mark = self._number(cursor, self._check, (key,))
        if mark is None:
            raise NoRow(f"the table {self._table} has no row {key!r}")
        judge(f"{self._table}/{key}", token, mark)
