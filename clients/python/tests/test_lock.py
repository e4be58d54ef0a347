"""Tests of the client that need no server. Those with servers are Go tests in cmd/stile: they drive worker.py."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Union
from unittest import mock

import stile

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "client.json").read_text(encoding="utf-8"))
HANDLE = "0123456789abcdef0123456789abcdef.1796017236111870.2147483647.2147483647.30000"
GRANT = stile._Verdict("holds", {"handle": HANDLE, "token": "9007199254740993", "valid_ms": 9900})
NO_ANSWER = stile._NoAnswer("the lock service is silent")


def verdict(do: str, **body: object) -> stile._Verdict:
    return stile._Verdict(do, {"code": do, "message": do, **body})


Answer = Union[stile._Verdict, BaseException, Callable[[], stile._Verdict]]


class Script:
    """Stands for the service: it gives one answer after the other, and then the last one again."""

    def __init__(self, lock: stile.Lock, *answers: Answer, renewals: Answer = GRANT):
        self.answers, self.renewals, self.renewed = list(answers), renewals, 0
        self.asked: list[tuple[str, str]] = []  # without the renewals
        self.queries: list[str] = []
        lock._service = self  # type: ignore[assignment]

    def size(self) -> int:
        return 1

    def ask(self, method: str, query: str, handle: str, timeout: float) -> stile._Verdict:
        answer = self.renewals
        self.queries.append(query)
        if method == "POST":
            self.renewed += 1
        else:
            self.asked.append((method, handle))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


class Clocks:
    """The two clocks of a process."""

    def __init__(self, test: unittest.TestCase):
        self.monotonic, self.wall = 100.0, 1e9
        for name, read in (("monotonic", lambda: self.monotonic), ("time", lambda: self.wall), ("sleep", self.sleep)):
            patch = mock.patch.object(time, name, read)
            patch.start()
            test.addCleanup(patch.stop)

    def sleep(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.perf_counter() + 60
    while not holds():
        if time.perf_counter() > end:
            raise AssertionError(f"not within a minute: {what}")
        threading.Event().wait(0.005)


class Vectors(unittest.TestCase):
    def test_answers(self) -> None:
        for v in VECTORS["answers"]:
            got = stile._judge(v["method"], v["status"], v["type"], v["body"].encode()).do
            self.assertEqual(got, v["do"], v)

    def test_clock(self) -> None:
        for v in VECTORS["clock"]:
            clocks = Clocks(self)
            sent = stile._Moment()
            clocks.monotonic += v["monotonic_ms"] / 1000
            clocks.wall += v["wall_ms"] / 1000
            passed = round(sent.elapsed(), 6)
            self.assertEqual((passed < v["valid_ms"] / 1000, passed >= v["valid_ms"] / 3000), (v["holds"], v["renew"]), v)

    def test_tokens(self) -> None:
        for v in VECTORS["tokens"]:
            self.assertLess(int(v["older"]), int(v["newer"]))


class URLs(unittest.TestCase):
    def test_good(self) -> None:
        for url, addresses in {
            "stile://127.0.0.1": [("127.0.0.1", 7845)], "stile://": [("127.0.0.1", 7845)],
            "stile://localhost:1,[::1]:2/": [("localhost", 1), ("::1", 2)],
            "stiles://:a%2Fb@locks.example.com,other:443": [("locks.example.com", 7845), ("other", 443)],
        }.items():
            self.assertEqual(stile._Service(url)._addresses, addresses, url)
        self.assertEqual(stile._Service("stile://:a%2Fb@localhost")._credential(), "a/b")

    def test_bad(self) -> None:
        for url in ("http://localhost", "stile:/localhost", "stile://a/b", "stile://a:0", "stile://a:65536", "stile://a b",
                    "stile://secret@localhost", "stile://ann:secret@localhost", "stile://:secret@db1",
                    "stile://:sec%0Aret@localhost",
                    "stile://localhost?secret=1", "stile://localhost?tls_ca=secret", "stile://:secret@localhost?token_file=a",
                    "stile://::1", "stile://[::1", "stile://:secret@localhost#a"):
            with self.assertRaises(ValueError) as caught:
                stile.Lock("a", url)
            if "=1" not in url and "tls_ca" not in url:
                self.assertNotIn("secret", str(caught.exception))

    def test_a_wrong_token_is_an_error_at_once(self) -> None:
        for scheme in ("stile", "stiles"):
            self.assertRaises(FileNotFoundError, stile.Lock, "a", scheme + "://localhost?token_file=no/such/file")
            self.assertRaises(ValueError, stile.Lock, "a", scheme + "://:sec%0Aret@localhost")

    def test_the_rest_of_a_token_is_not_shown(self) -> None:
        for url in ("stiles://:to?ken@h", "stile://:to?ken=1@h", "stile://:a?b?ken@h", "stiles://h?token_file=a&ken@h"):
            with self.assertRaisesRegex(ValueError, "%3F") as caught:
                stile.Lock("a", url)
            self.assertNotIn("ken@", str(caught.exception))
            self.assertNotIn("'ken", str(caught.exception))

    def test_arguments(self) -> None:
        for arguments in ({"ttl": -1}, {"wait": float("nan")}, {"patience": float("inf")}, {"handle": "x\ny"},
                          {"handle": HANDLE[:32]}):
            with self.assertRaises(ValueError):
                stile.Lock("a", **arguments)
        with self.assertRaises(ValueError):
            stile.Lock("\udcff")


class Taking(unittest.TestCase):
    def lock(self, **arguments: Any) -> stile.Lock:
        self.clocks = Clocks(self)
        return stile.Lock("a", **arguments)

    def test_the_same_request_is_repeated(self) -> None:
        lock = self.lock()
        script = Script(lock, NO_ANSWER, NO_ANSWER, GRANT, verdict("released"))
        with lock:
            self.assertEqual(lock.token, 9007199254740993)
        ids = {handle for _, handle in script.asked[:3]}
        self.assertEqual((len(ids), len(ids.pop())), (1, 32))
        self.assertEqual(script.asked[3], ("DELETE", HANDLE))

    def test_a_busy_server_is_asked_later(self) -> None:
        busy = stile._NoAnswer("the lock service has too much to do")
        busy.after = 2.0
        lock = self.lock()
        Script(lock, busy, verdict("waits", handle=HANDLE)._replace(after=1.0), GRANT, verdict("released"))
        began = self.clocks.monotonic
        with lock:
            self.assertEqual(self.clocks.monotonic - began, 3.0)
        for text, seconds in (("2", 2.0), ("4000", 30.0), (None, 0.0), ("", 0.0), ("-1", 0.0), ("Mon, 30 Nov 2026", 0.0)):
            self.assertEqual(stile._seconds(text), seconds)

    def test_a_place_that_is_lost_needs_a_new_id(self) -> None:
        lock = self.lock()
        script = Script(lock, verdict("waits", handle=HANDLE), verdict("anew"), GRANT)
        lock.acquire()
        first, second, third = (handle for _, handle in script.asked)
        self.assertEqual(second, HANDLE)
        self.assertEqual((first == third, len(third)), (False, 32))

    def test_a_handle_that_is_gone_is_lost(self) -> None:
        lock = self.lock(handle=HANDLE)
        script = Script(lock, verdict("anew"))
        self.assertRaises(stile.LockLost, lock.acquire)
        self.assertEqual(script.asked, [("PUT", HANDLE)])

    def test_held(self) -> None:
        lock = self.lock(wait=0)
        script = Script(lock, verdict("waits", holder={"owner": "ann"}))
        with self.assertRaises(stile.LockHeld) as caught:
            lock.acquire()
        self.assertEqual(caught.exception.holder["owner"], "ann")
        self.assertEqual(len(script.asked), 1)  # nothing entered

    def test_a_claim_that_waits_is_given_up(self) -> None:
        lock = self.lock(wait=0)
        script = Script(lock, verdict("waits", handle=HANDLE), verdict("released"))
        self.assertRaises(stile.LockHeld, lock.acquire)
        self.assertEqual(script.asked[1:], [("DELETE", HANDLE)])

    def test_an_id_is_given_up_with_its_share(self) -> None:
        lock = self.lock(wait=0, permits=2, of=5, owner="ann")
        script = Script(lock, NO_ANSWER)
        self.assertRaises(stile.LockUnknown, lock.acquire)
        self.assertEqual(script.queries[-1], "name=a&permits=2&of=5")

    def test_another_ones_claim_is_not_given_up(self) -> None:
        lock = self.lock(handle=HANDLE, wait=0)
        script = Script(lock, verdict("waits", handle=HANDLE))
        self.assertRaises(stile.LockHeld, lock.acquire)
        self.assertEqual(script.asked, [("PUT", HANDLE)])

    def test_a_refusal(self) -> None:
        lock = self.lock()
        Script(lock, verdict("refused", code="forbidden"))
        with self.assertRaises(stile.LockRefused) as caught:
            lock.acquire()
        self.assertEqual(caught.exception.code, "forbidden")

    def test_silence(self) -> None:
        for wait, least in ((None, 30.0), (0.0, 0.0)):
            lock, begin = self.lock(wait=wait), 100.0
            script = Script(lock, NO_ANSWER)
            self.assertRaises(stile.LockUnknown, lock.acquire)
            self.assertGreaterEqual(self.clocks.monotonic - begin, least)
            self.assertLess(self.clocks.monotonic - begin, least + 2)
            self.assertEqual(script.asked[-1][0], "DELETE")

    def test_a_grant_that_comes_too_late_is_asked_for_again(self) -> None:
        def slow() -> stile._Verdict:
            self.clocks.wall += 3600
            return GRANT

        lock = self.lock()
        script = Script(lock, slow, GRANT)
        lock.acquire()
        self.assertEqual(script.asked[1:], [("PUT", HANDLE)])

    def test_a_hold_whose_threads_do_not_start_is_given_up(self) -> None:
        lock = self.lock()
        script = Script(lock, GRANT, NO_ANSWER)
        start, started, held = threading.Thread.start, [], []

        def fails(thread: threading.Thread) -> None:
            held.append(lock.held)
            if started:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        with mock.patch.object(threading.Thread, "start", fails):
            self.assertRaises(RuntimeError, lock.acquire)
        self.assertEqual(held, [True, True])  # an interrupt finds the hold, and ends it
        self.assertEqual([method for method, _ in script.asked], ["PUT", "DELETE"])
        self.assertFalse(lock.held)
        started[0].join(60)
        self.assertFalse(started[0].is_alive(), "the thread goes on renewing")

    def test_an_interrupt_gives_up(self) -> None:
        lock = self.lock()
        script = Script(lock, KeyboardInterrupt(), verdict("released"))
        self.assertRaises(KeyboardInterrupt, lock.acquire)
        self.assertEqual([method for method, _ in script.asked], ["PUT", "DELETE"])
        self.assertFalse(lock.held)


class Holding(unittest.TestCase):
    def taken(self, *answers: Answer, **arguments: Any) -> stile.Lock:
        self.clocks = Clocks(self)
        renewals = arguments.pop("renewals", GRANT)
        lock = stile.Lock("a", **arguments)
        self.script = Script(lock, GRANT, *answers, renewals=renewals)
        lock.acquire()
        self.addCleanup(lambda: lock._hold and lock._hold.end())
        return lock

    def test_it_is_lost_after_the_machine_slept(self) -> None:
        for clock in ("wall", "monotonic"):
            lost: list[stile.LockError] = []
            lock = self.taken(on_lost=lambda lock, error: lost.append(error))
            lock.check()
            setattr(self.clocks, clock, getattr(self.clocks, clock) + 10)
            self.assertFalse(lock.held)
            setattr(self.clocks, clock, getattr(self.clocks, clock) - 10)  # a lost lock never comes back
            self.assertRaises(stile.LockLost, lock.check)
            until("on_lost is called", lambda: len(lost) == 1)
            self.assertIsInstance(lost[0], stile.LockLost)
            self.assertRaises(stile.LockLost, lock.release)

    def test_danger_once_then_the_loss(self) -> None:
        heard: list[str] = []

        def hears(lock: stile.Lock, error: stile.LockError) -> None:
            heard.append(type(error).__name__)
            raise RuntimeError("a callback that fails ends nothing")

        with self.assertLogs("stile", "ERROR"):
            lock = self.taken(renewals=NO_ANSWER, on_danger=hears, on_lost=hears)
            until("the danger is heard of", lambda: heard == ["_NoAnswer"])
            lock.check()
            for _ in range(3):
                before = self.script.renewed
                self.clocks.sleep(2)
                until("another renewal fails", lambda: self.script.renewed > before)
            lock.check()
            self.clocks.sleep(5)
            until("the loss is heard of", lambda: len(heard) > 1)
        self.assertEqual(heard, ["_NoAnswer", "LockLost"])

    def test_a_callback_that_exits_ends_nothing(self) -> None:
        lost: list[stile.LockError] = []

        def exits(lock: stile.Lock, error: stile.LockError) -> None:
            raise SystemExit(1)

        with self.assertLogs("stile", "ERROR") as logs:
            self.taken(renewals=NO_ANSWER, on_danger=exits, on_lost=lambda lock, error: lost.append(error))
            until("the danger is heard of", lambda: bool(logs.records))
            self.clocks.sleep(10)
            until("the loss is heard of", lambda: bool(lost))
        self.assertEqual(len(lost), 1)

    def test_a_renewal_after_the_end_is_too_late(self) -> None:
        jumps = [7.0, 7.0]  # the second renewal begins after 7 s, and its answer comes after 14 s

        def slow() -> stile._Verdict:
            self.clocks.wall += jumps.pop() if jumps else 0.0
            return GRANT

        lock = self.taken(renewals=slow)
        until("the lock is lost", lambda: not lock.held)

    def test_a_break(self) -> None:
        lock = self.taken(renewals=verdict("lost"))
        until("the lock is lost", lambda: not lock.held)
        with self.assertRaises(stile.LockLost):
            lock.__exit__(None, None, None)

    def test_the_error_of_the_block_goes_on(self) -> None:
        lock = self.taken(verdict("lost"))
        with self.assertLogs("stile", "WARNING"):
            lock.__exit__(KeyError, KeyError("a"), None)
        self.assertFalse(lock.held)

    def test_release(self) -> None:
        lock = self.taken(NO_ANSWER, verdict("lost"))  # the answer was lost, so its request may have removed the claim
        lock.release()
        self.assertRaises(stile.LockError, lock.release)
        lock = self.taken(verdict("lost"))
        self.assertRaises(stile.LockLost, lock.release)
        lock = self.taken(verdict("refused", code="forbidden"))
        self.assertRaises(stile.LockRefused, lock.release)

    def test_a_release_is_repeated_until_the_lease_is_over(self) -> None:
        lock = self.taken(NO_ANSWER)
        begin = self.clocks.monotonic
        lock.release()
        self.assertGreaterEqual(self.clocks.monotonic - begin, 9.9)
        lock = self.taken(NO_ANSWER, patience=2)
        self.assertRaises(stile.LockUnknown, lock.release)

    def test_threads_end_with_the_lock(self) -> None:
        def mine() -> list[threading.Thread]:
            return [thread for thread in threading.enumerate() if thread.name == "stile a"]

        until("those of other tests have ended", lambda: not mine())
        lock = self.taken(verdict("released"))
        self.assertTrue(mine() and all(thread.daemon for thread in mine()))
        lock.release()
        until("the threads have ended", lambda: not mine())
        lock = self.taken()
        self.assertEqual(lock.detach(), HANDLE)
        until("the threads have ended", lambda: not mine())
        self.assertEqual([method for method, _ in self.script.asked], ["PUT"])

    def test_a_fork_holds_nothing(self) -> None:
        lock = self.taken(verdict("released"))
        hold = lock._hold
        assert hold
        locked, forked = threading.Event(), threading.Event()

        def keep() -> None:  # the condition, which so stays locked in the child for ever
            with hold._changed:
                locked.set()
                forked.wait()

        threading.Thread(target=keep).start()
        locked.wait()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(10)
                status = 3 if lock.held else 1
                lock.__exit__(None, None, None)
            except stile.LockLost as error:
                status += 0 if "forked" in str(error) and len(self.script.asked) == 1 else 4
            finally:
                os._exit(status - 1)
        forked.set()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        lock.check()

    def test_it_is_taken_once_at_a_time(self) -> None:
        lock = self.taken(verdict("released"), GRANT)
        self.assertRaises(stile.LockError, lock.acquire)
        lock.release()
        lock.acquire()
        self.assertNotIn(HANDLE[:32], repr(lock) + repr(lock._hold))

    def test_a_lost_lock_is_taken_again_only_after_its_release(self) -> None:
        refused: list[BaseException] = []

        def again(lock: stile.Lock, error: stile.LockError) -> None:
            try:
                lock.acquire()
            except stile.LockError as refusal:
                refused.append(refusal)

        lock = self.taken(GRANT, on_lost=again)
        self.clocks.sleep(10)
        self.assertRaises(stile.LockLost, lock.check)
        until("on_lost has tried to take the lock", lambda: bool(refused))
        with self.assertRaisesRegex(stile.LockError, "release"):
            lock.acquire()
        self.assertRaises(stile.LockLost, lock.check)
        self.assertRaises(stile.LockLost, lock.release)
        lock.acquire()
        lock.check()

    def test_an_interrupted_release_leaves_no_renewals(self) -> None:
        class Interrupted(stile.Lock):
            def __setattr__(self, name: str, value: object) -> None:
                object.__setattr__(self, name, value)
                if name == "_hold" and value is None and self.__dict__.get("armed"):
                    raise KeyboardInterrupt

        self.clocks = Clocks(self)
        lock = Interrupted("a")
        Script(lock, GRANT, verdict("released"))
        lock.acquire()
        hold = lock._hold
        assert hold
        lock.armed = True  # type: ignore[attr-defined]
        self.assertRaises(KeyboardInterrupt, lock.release)
        self.assertEqual(hold.remaining(), 0.0)

    def test_one_of_two_releases_wins(self) -> None:
        lock = self.taken(verdict("released"))
        hold, both, won = lock._hold, threading.Barrier(2, timeout=60), []
        assert hold
        end = hold.end

        def together() -> bool:
            try:
                both.wait(0.5)  # the second thread comes here too, unless it waits for the first one
            except threading.BrokenBarrierError:
                pass
            return end()

        def release() -> None:
            try:
                lock.release()
                won.append("released")
            except stile.LockError as error:
                won.append(type(error).__name__)

        with mock.patch.object(hold, "end", together):
            threads = [threading.Thread(target=release) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(won), ["LockError", "released"])


if __name__ == "__main__":
    unittest.main()
