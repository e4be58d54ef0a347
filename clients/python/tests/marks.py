"""Plays the guard for a test, which sends requests to stdin and reads answers from stdout, JSON on one line each.

marks.py DIALECT MODULE KEYWORDS, where the keywords are those of the DB-API module's connect. A request is begin, commit,
rollback, raise, check, guarded, autocommit with on or off, or sql with a text, whose answer is the first number. Its kind is
table, column, or the name of another table, whose column fence has the marks.
"""

import importlib
import json
import sys

from stile import guard

ERRORS = {guard.Stale: "stale", guard.NotRaised: "not raised", guard.NoToken: "no token", guard.Invalid: "invalid",
          guard.NoRow: "no row"}

dialect, module, keywords = sys.argv[1:4]
connection = importlib.import_module(module).connect(**json.loads(keywords))
table, column = guard.Table(dialect), guard.Column(dialect, "account", "id", "fence")
table.create(connection)
cursor = connection.cursor()
for line in sys.stdin:
    q, answer = json.loads(line), {"error": ""}
    kind = q.get("kind", "table")
    marks = {"table": table, "column": column}.get(kind) or guard.Column(dialect, kind, "id", "fence")
    key = q.get("resource") if kind == "table" else int(q["resource"])
    try:
        if q["do"] in ("commit", "rollback"):
            getattr(connection, q["do"])()
        elif q["do"] == "raise":
            marks.raise_token(cursor, key, int(q["token"]))
        elif q["do"] == "check":
            marks.check_token(cursor, key, int(q["token"]))
        elif q["do"] == "autocommit":
            if dialect == "sqlite":
                connection.isolation_level = None if q["text"] == "on" else ""
            elif dialect == "mysql":
                connection.autocommit(q["text"] == "on")
            else:
                connection.autocommit = q["text"] == "on"
        elif q["do"] == "guarded":
            with (guard.Table(dialect) if kind == "table" else marks).guarded(connection, key, int(q["token"])):
                pass
        elif q["do"] == "sql":
            cursor.execute(q["text"])
            answer["number"] = str(cursor.fetchall()[0][0]) if cursor.description else ""
    except guard.GuardError as error:
        answer = {"error": ERRORS[type(error)], "newer": str(getattr(error, "newer", 0))}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
