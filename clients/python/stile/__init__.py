"""Locks of the lock service of stile.

    from stile import Lock

    with Lock("orders/42", "stile://127.0.0.1:7845") as lock:
        ship(lock.token)

A lock has a lease, and a thread renews it. If the lease ends, because the service cannot be reached, the process stood still
or somebody broke the lock, then Lock.check raises LockLost, and so does the end of the with block. Send Lock.token along with
each write, so that the resource can refuse a late one: stile.guard does so for databases.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import math
import os
import re
import secrets
import ssl
import sys
import threading
import time
from types import TracebackType
from typing import Any, Callable, Mapping, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

__all__ = ["Lock", "LockError", "LockHeld", "LockLost", "LockRefused", "LockUnknown"]

_log = logging.getLogger("stile")

_STEP = 6.0  # seconds that one PUT waits
_LATE = 2.0  # seconds that an answer may be late: a waiting claim stays for 3 s, so the next server finds it
_LOOK = 0.5  # seconds between looks at the clocks: no timer runs while the machine sleeps
_MOST = 1 << 20  # bytes of an answer
_REFUSALS = ("capacity", "forbidden", "foreign", "invalid", "unauthenticated", "unsupported")  # codes that end a request


class LockError(Exception):
    """The base of all errors of this module."""


class LockHeld(LockError):
    """Another holder has the lock, and the time to wait is over. The claim has left the queue."""

    def __init__(self, message: str, holder: Mapping[str, Any]):
        super().__init__(message)
        self.holder = holder  # token, owner, program, host, since_ms and others; empty if it may not be seen


class LockLost(LockError):
    """The lock is no longer held: others may hold it. Stop the work."""


class LockRefused(LockError):
    """The service refused the request. The code says why, as docs/serve/http.md lists it, for example forbidden."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class LockUnknown(LockError):
    """No server answered in time. The claim may be in the store; it leaves by itself, after 10 s in most stores."""


class _NoAnswer(LockUnknown):
    """A request has no answer of the service. Whether it was applied is unknown."""

    after = 0.0  # seconds to pause before the next request, if a busy server has refused this one


class _Moment:
    """A time on two clocks. The monotonic clock may stand still while the machine sleeps; the wall clock may be set back."""

    def __init__(self) -> None:
        self._monotonic, self._wall = time.monotonic(), time.time()

    def elapsed(self) -> float:
        """Returns the seconds since then: the larger of both clocks. The service has subtracted their drift from valid_ms."""
        return max(time.monotonic() - self._monotonic, time.time() - self._wall)


class _Verdict(NamedTuple):
    do: str  # a word of clients/vectors/client.json
    body: Mapping[str, Any]
    after: float = 0.0  # seconds to pause before the next request, from a busy server


def _seconds(retry_after: str | None) -> float:
    return min(float(retry_after), 30.0) if retry_after and re.fullmatch("[0-9]{1,9}", retry_after) else 0.0


def _judge(method: str, status: int, kind: str, text: bytes) -> _Verdict:
    """Says what to do at an answer. One that came from a proxy, or has an unknown code, has an unknown outcome."""
    try:
        body = json.loads(text) if kind == "application/json" and len(text) <= _MOST else None
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    code, refused = body.get("code"), body.get("outcome") == "refused" and not body.get("unreachable")
    if status == 200:
        if method == "DELETE":
            return _Verdict("released" if body.get("released") is True else "again", body)
        whole = type(body.get("valid_ms")) is int and isinstance(body.get("handle"), str)
        return _Verdict("holds" if whole and re.fullmatch("[0-9]*", str(body.get("token", ""))) else "again", body)
    words = {"held": "lost" if method == "POST" else "waits", "place_lost": "anew", "gone": "lost",
             **dict.fromkeys(_REFUSALS, "refused")}
    return _Verdict(words.get(str(code), "again") if refused else "again", body)


class _Service:
    """The addresses of a lock service, and the credentials for it."""

    def __init__(self, url: str):
        scheme, _, rest = url.partition("://")
        rest, _, query = rest.partition("?")
        user, at, hosts = rest.rpartition("@")
        if scheme not in ("stile", "stiles"):
            raise ValueError("the URL of a lock service is stile://host:port, or stiles:// for TLS")
        if at and not user.startswith(":"):
            raise ValueError("the URL of a lock service has no user: a token is written as stile://:TOKEN@host")
        if "@" in query:  # most likely the rest of a token, which is not shown
            raise ValueError("the URL of a lock service has an @ in its parameters: a token has %3F for ?, and a file %40 for @")
        known = ["token_file"] + (["tls_ca", "tls_cert", "tls_key"] if scheme == "stiles" else [])
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        for name in parameters:
            if name not in known:
                raise ValueError(f"a {scheme}:// URL has no parameter {name[:40]!r}; it may have {', '.join(known)}")
        self._addresses: list[tuple[str, int]] = []
        for host in hosts[:-1].split(",") if hosts.endswith("/") else hosts.split(","):
            match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*))(?::([0-9]{1,5}))?", host)
            if not match or not 0 < int(match[3] or 7845) < 1 << 16:
                raise ValueError("the URL of a lock service is stile://host:port,host:port without a path")
            self._addresses.append((match[1] or match[2] or "127.0.0.1", int(match[3] or 7845)))
        self._first, self._token, self._file = 0, unquote(user[1:]), parameters.get("token_file", "")
        if self._token and self._file:
            raise ValueError("the token is in the URL or in token_file, not in both")
        self._tls: ssl.SSLContext | None = None
        credential = self._credential()  # a wrong one is an error here; later it could be one that is being replaced
        if scheme == "stiles":
            self._tls = ssl.create_default_context(cafile=parameters.get("tls_ca") or None)
            if parameters.get("tls_cert"):
                self._tls.load_cert_chain(parameters["tls_cert"], parameters.get("tls_key"))
        elif credential and not all(_loopback(host) for host, _ in self._addresses):
            raise ValueError("stile:// would send the token as plain text to another machine: use stiles://")

    def _credential(self) -> str:
        token = self._token
        if self._file:  # which may have a new token since the last request
            with open(self._file, encoding="ascii", errors="replace") as file:
                token = file.read().strip()
            if not token:
                raise ValueError("the file that token_file names is empty")
        if not re.fullmatch("[!-~]*", token):
            raise ValueError("a token has only letters, digits and signs")
        return token

    def size(self) -> int:
        """Returns the number of addresses."""
        return len(self._addresses)

    def ask(self, method: str, query: str, handle: str, timeout: float) -> _Verdict:
        """Sends a request to one server. The next request goes to the next server if the answer is not one of the service."""
        at = self._first
        host, port = self._addresses[at]
        why, after = "no answer of a lock service: a proxy may have answered", 0.0
        try:
            headers = {"Stile-Handle": handle, "Connection": "close",
                       "User-Agent": re.sub(r"[^!-.0-~]", "_", os.path.basename(sys.argv[0] or "python"))}
            credential = self._credential()
            if credential:
                headers["Authorization"] = "Bearer " + credential
            connection = (http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls) if self._tls
                          else http.client.HTTPConnection(host, port, timeout=timeout))
            try:
                connection.request(method, "/v1/locks?" + query, headers=headers)
                response = connection.getresponse()
                verdict = _judge(method, response.status, response.headers.get_content_type(), response.read(_MOST + 1))
                after = _seconds(response.headers.get("Retry-After"))
            finally:
                connection.close()
            if verdict.do != "again":
                return verdict._replace(after=after)
            why = str(verdict.body.get("message", f"status {response.status}, {why}"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
        self._first = (at + 1) % len(self._addresses)
        unknown = _NoAnswer(f"the lock service at {host}:{port}: {why}")
        unknown.after = after
        raise unknown


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Hold:
    """A lock that holds, from its grant until it is released or lost:

        held ──release, detach──► ended
          └──the lease is over, or the claim is gone──► lost

    One thread renews the lease. Another one watches the clocks and calls the callbacks, also while a renewal has no answer.
    """

    def __init__(self, lock: Lock, service: _Service, granted: Mapping[str, Any], sent: _Moment):
        self.handle, self.token = str(granted["handle"]), int(granted.get("token") or 0)
        self._lock, self._service, self._pid = lock, service, os.getpid()
        self._name, self._query = lock.name, urlencode({"name": lock.name})
        self._changed = threading.Condition()  # guards the fields below
        self._state, self._why, self._danger = "held", "", False
        self._news: list[tuple[Callable[[Lock, LockError], None] | None, LockError]] = []  # callbacks to call
        self._sent, self._valid = sent, float(granted["valid_ms"]) / 1000

    def start(self) -> None:
        """Starts the threads. After an error, end ends those that have started."""
        for work in (self._renew, self._watch):
            threading.Thread(target=work, name=f"stile {self._name}", daemon=True).start()

    def ours(self) -> bool:
        """Reports whether this process took the lock, and not the one that it was forked from."""
        return self._pid == os.getpid()

    def remaining(self) -> float:
        """Returns the seconds until the lease is over, 0 if it is lost. A forked process holds nothing."""
        if not self.ours():  # the condition may be locked for ever here: its owner was not forked
            return 0.0
        with self._changed:
            return self._remaining_locked()

    def _remaining_locked(self) -> float:
        if self._state != "held":
            return 0.0
        left = self._valid - self._sent.elapsed()
        if left <= 0:
            self._lose_locked("the lease is over: no renewal was answered in time, or this process stood still")
        return max(0.0, left)

    def lost(self) -> LockLost:
        """Returns the error of a lock that is lost, or that is another process's."""
        why = self._why if self.ours() else "it is held by the process that this one was forked from"
        return LockLost(f"the lock {self._name!r} is lost: {why or 'it was released'}")

    def _lose_locked(self, why: str) -> None:
        if self._state == "held":
            self._state, self._why = "lost", why
            self._news.append((self._lock.on_lost, self.lost()))
            self._changed.notify_all()

    def end(self) -> bool:
        """Ends the renewals. It reports whether the lock was held until now."""
        if not self.ours():
            return False
        with self._changed:
            held = self._remaining_locked() > 0
            if held:
                self._state = "ended"
                self._changed.notify_all()
            return held

    def over(self) -> bool:
        """Reports whether the lease is over after end."""
        return self._sent.elapsed() >= self._valid

    def _renew(self) -> None:
        since, pause = _Moment(), 0.0  # at once: until the first renewal the lease is short
        while True:
            with self._changed:
                while self._state == "held" and since.elapsed() < pause:
                    self._changed.wait(min(max(pause - since.elapsed(), 0.0), _LOOK))
                if self._remaining_locked() == 0:
                    return
                valid = self._valid
            since, pause = _Moment(), min(valid / 20, 1.0)
            verdict, error = None, LockError()
            try:
                verdict = self._service.ask("POST", self._query, self.handle, min(valid / 6, 10.0))
                error = LockRefused(str(verdict.body.get("code")), str(verdict.body.get("message")))
            except _NoAnswer as unknown:
                error = unknown
            with self._changed:
                if verdict and verdict.do == "holds" and self._remaining_locked() > 0:  # an answer after the end is too late
                    self.handle, self._danger = str(verdict.body["handle"]), False
                    self._sent, self._valid = since, float(verdict.body["valid_ms"]) / 1000
                    pause = self._valid / 3
                elif verdict and verdict.do == "lost":
                    self._lose_locked(str(error))
                elif self._state == "held" and not self._danger:
                    self._danger = True
                    self._news.append((self._lock.on_danger, error))
                    self._changed.notify_all()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._news and self._remaining_locked() > 0:
                    self._changed.wait(min(self._valid - self._sent.elapsed(), _LOOK))
                if not self._news:
                    return
                call, error = self._news.pop(0)
            try:
                if call:
                    call(self._lock, error)
            except BaseException:  # also SystemExit, which would end only this thread
                _log.exception("a callback of the lock %r failed", self._name)


class Lock:
    """A lock of a lock service: one for each name, in all processes of all machines. See docs/serve/http.md.

    url is stile://host:port, or stiles:// for TLS; several hosts of one service have commas between them. A token for the
    service is in the URL, stile://:TOKEN@host, or in the file that its parameter token_file names. stiles:// also has tls_ca,
    tls_cert and tls_key, which are files.

    ttl is the length of the lease in seconds after each renewal: how long others wait for the lock of a process that died. None
    is the service's default, 15 s, or the ttl of the handle.
    wait is how many seconds to wait for the lock; 0 tries once, None waits without limit. patience is how many seconds to go on
    while no server answers. With shared, readers hold together. permits of the name's of permits are taken at once. owner and
    reason are for people. With a handle, which Lock.handle or another client gave, the lock of that client is taken up.

    A thread calls on_danger with the lock and an error when a renewal fails, and on_lost when the lock is lost. A callback that
    does not return holds up the next one, but no renewal.

    A Lock is taken by one holder at a time. It may be taken again after release or detach, which a lost lock needs too. Its
    methods may be called by several threads. It does not pass through a fork: the child process holds nothing.
    """

    def __init__(self, name: str, url: str = "stile://127.0.0.1:7845", *, ttl: float | None = None, wait: float | None = None,
                 patience: float = 30.0, shared: bool = False, permits: int | None = None, of: int | None = None,
                 owner: str = "", reason: str = "", handle: str | None = None,
                 on_danger: Callable[[Lock, LockError], None] | None = None,
                 on_lost: Callable[[Lock, LockError], None] | None = None):
        for what, seconds in (("ttl", ttl), ("wait", wait), ("patience", patience)):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise ValueError(f"{what} is a number of seconds from 0 on, not {seconds!r}")
        if handle is not None and not re.fullmatch(r"[A-Za-z0-9_-]{22,64}(\.[0-9]+){4}", handle):
            raise ValueError("a handle comes from Lock.handle, or from an answer of the service")
        self.name, self.on_danger, self.on_lost = name, on_danger, on_lost
        self._service, self._wait, self._patience, self._given = _Service(url), wait, patience, handle
        asked = {"name": name, "ttl": None if ttl is None else f"{round(ttl * 1000)}ms", "shared": "true" if shared else None,
                 "permits": permits, "of": of, "owner": owner or None, "reason": reason or None}
        self._query = urlencode({key: value for key, value in asked.items() if value is not None})
        share = ("name", "shared", "permits", "of")  # which DELETE needs if the client has only its id of the claim
        self._claim = urlencode({key: asked[key] for key in share if asked[key] is not None})
        self._taking, self._leaving = threading.Lock(), threading.Lock()
        self._hold: _Hold | None = None

    def __repr__(self) -> str:
        return f"<stile.Lock {self.name!r} {'held' if self.held else 'not held'}>"

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Releases the lock. An error of the block goes on; without one, LockLost says that the lock was lost."""
        try:
            if self._hold:
                self.release()
        except LockError as unreleased:
            if error is None:
                raise
            _log.warning("the lock %r: %s", self.name, unreleased)

    def acquire(self) -> None:
        """Takes the lock, and waits for it. The errors are LockHeld, LockRefused, LockUnknown, and LockLost with a handle."""
        if not self._taking.acquire(blocking=False):
            raise LockError(f"the lock {self.name!r} is being taken by this Lock")
        try:
            if self._hold and self._hold.ours():  # even if it is lost: who works under it has to learn of the loss
                raise LockError(f"the lock {self.name!r} is already taken by this Lock; release it first, even if it is lost")
            self._take()
        finally:
            self._taking.release()

    def _take(self) -> None:
        # The id of the claim comes first, so that a request can be repeated. Answers have the handle to send from then on.
        handle, remains = self._given or secrets.token_hex(16), False
        began, heard, silent = _Moment(), _Moment(), 0
        try:
            while True:
                left = math.inf if self._wait is None else max(0.0, self._wait - began.elapsed())
                sent, step, remains = _Moment(), min(left, _STEP), True
                try:
                    query = f"{self._query}&wait={round(step * 1000)}ms"
                    do, body, after = self._service.ask("PUT", query, handle, step + _LATE)
                except _NoAnswer as unknown:
                    silent += 1
                    rounds, rest = divmod(silent, self._service.size())
                    if rounds > 1 and (left == 0 or heard.elapsed() >= self._patience):
                        raise LockUnknown(str(unknown)) from None
                    if rest == 0:  # all servers were asked
                        time.sleep(max(min(0.1 * rounds, 1.0), unknown.after))
                    continue
                heard, silent, remains = _Moment(), 0, "handle" in body
                if do == "refused":
                    raise LockRefused(str(body["code"]), str(body.get("message")))
                if do == "anew" and self._given:
                    raise LockLost(f"the lock {self.name!r} is lost: {body.get('message')}")
                handle = secrets.token_hex(16) if do == "anew" else str(body.get("handle", handle))
                if do == "holds" and sent.elapsed() < body["valid_ms"] / 1000:  # an answer that comes later is worth nothing
                    self._hold = _Hold(self, self._service, body, sent)
                    self._hold.start()
                    return
                if do == "waits" and left == 0:
                    raise LockHeld(f"the lock {self.name!r} is held", body.get("holder") or {})
                time.sleep(min(after, left))  # a busy server has cut the wait short
        except BaseException:
            if self._hold:
                self._hold.end()  # first, so that an interrupt leaves no renewals
                self._hold = None
            if remains and not self._given:
                self._give_up(handle)
            raise

    def _give_up(self, handle: str) -> None:
        """Removes a claim that waits, or whose answer was lost. If no server answers, it leaves by itself."""
        for _ in range(self._service.size()):
            try:
                self._service.ask("DELETE", self._claim, handle, _LATE)
                return
            except _NoAnswer as unknown:
                _log.info("the lock %r is not given up yet: %s", self.name, unknown)

    def release(self) -> None:
        """Releases the lock. LockLost: it was lost before. LockUnknown: no server answered, so it ends with its lease."""
        hold = self._leave()
        began, silent = _Moment(), 0
        while True:
            try:
                do, body, _ = self._service.ask("DELETE", self._claim, hold.handle, 2 * _LATE)
            except _NoAnswer as unknown:
                silent += 1
                if hold.over():  # so the store has removed it
                    return
                if began.elapsed() >= self._patience:
                    raise LockUnknown(f"the lock {self.name!r} may stay until its lease is over: {unknown}") from None
                if silent % self._service.size() == 0:
                    time.sleep(_LOOK)
                continue
            if do == "lost" and not silent:  # otherwise the request whose answer was lost may have removed it
                raise LockLost(f"the lock {self.name!r} was lost: {body.get('message')}")
            if do == "refused":
                raise LockRefused(str(body["code"]), str(body.get("message")))
            return

    def detach(self) -> str:
        """Leaves the lock taken, without renewals, and returns the handle. Another process takes it up in time."""
        return self._leave().handle

    def _leave(self) -> _Hold:
        """Ends the hold. Of several threads only one gets it; the others learn that the lock is not taken."""
        hold = self._mine()
        if not hold.ours():  # the mutex may be locked for ever here
            self._hold = None
            raise hold.lost()
        with self._leaving:
            hold = self._mine()
            held, self._hold = hold.end(), None
        if not held:
            raise hold.lost()
        return hold

    def check(self) -> None:
        """Raises LockLost unless the lock is held. It asks no server."""
        hold = self._mine()
        if hold.remaining() == 0:
            raise hold.lost()

    @property
    def held(self) -> bool:
        """Whether the lock is held now. It asks no server."""
        return self.remaining > 0

    @property
    def remaining(self) -> float:
        """The seconds until the lease is over if no renewal succeeds, 0 if the lock is not held."""
        return self._hold.remaining() if self._hold else 0.0

    @property
    def token(self) -> int:
        """The fencing token, 0 if the store has none. Of two grants that exclude each other, the later has the larger one."""
        return self._mine().token

    @property
    def handle(self) -> str:
        """The right to renew and release the lock. Keep it secret."""
        return self._mine().handle

    def _mine(self) -> _Hold:
        if self._hold is None:
            raise LockError(f"the lock {self.name!r} is not taken")
        return self._hold
