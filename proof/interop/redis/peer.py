"""A client of the locks of redis-py or redlock-py that is told on its standard input what to do.

It is told one line each: lock NAME, try NAME, unlock, exit. It answers held, busy, free, or error and a text.
Arguments: redis-py or redlock-py; the servers, as host:port with commas between; the lease in milliseconds. What the
library can renew is renewed every third of the lease.
"""

import sys
import threading

import redis
import redlock
from redis.backoff import NoBackoff
from redis.retry import Retry


class RedisPy:
    """Lock of redis-py."""

    def __init__(self, servers, lease):
        self.client = redis.Redis(**servers[0])
        self.client.ping()
        self.lease = lease
        self.held = None
        self.over = None

    def take(self, name, wait):
        held = self.client.lock(name, timeout=self.lease / 1000, sleep=0.05, thread_local=False)
        if not held.acquire(blocking=wait):
            return False
        self.held = held
        self.over = threading.Event()
        self.renewal = threading.Thread(target=self.renew, args=(held, self.over), daemon=True)
        self.renewal.start()
        return True

    def renew(self, held, over):
        while not over.wait(self.lease / 3000):
            try:
                held.reacquire()
            except redis.exceptions.LockError:
                return

    def release(self):
        self.over.set()
        self.renewal.join()
        self.held.release()


class RedlockPy:
    """Lock of redlock-py, which cannot be renewed.

    It is older than the attempts that redis-py has made since to reach a server, which last longer than a lease.
    """

    def __init__(self, servers, lease):
        clients = [redis.Redis(**s, retry=Retry(NoBackoff(), 0)) for s in servers]
        self.locks = redlock.Redlock(clients, retry_count=1, retry_delay=0.05)
        self.lease = lease
        self.held = None

    def take(self, name, wait):
        self.held = self.locks.lock(name, self.lease)
        while wait and not self.held:
            self.held = self.locks.lock(name, self.lease)
        return bool(self.held)

    def release(self):
        self.locks.unlock(self.held)


def answer(client, verb, name):
    if verb in ("lock", "try"):
        return "held -" if client.take(name, verb == "lock") else "busy"
    if verb == "unlock":
        client.release()
        return "free"
    return "error unknown request " + verb


def main(kind, servers, lease):
    servers = [dict(zip(("host", "port"), s.split(":"))) for s in servers.split(",")]
    client = {"redis-py": RedisPy, "redlock-py": RedlockPy}[kind](servers, int(lease))
    print("ready", flush=True)
    for line in sys.stdin:
        verb, _, name = line.rstrip("\n").partition(" ")
        if verb == "exit":
            break
        try:
            said = answer(client, verb, name)
        except Exception as e:
            said = "error %s: %s" % (type(e).__name__, str(e).replace("\n", " "))
        print(said, flush=True)


main(*sys.argv[1:])
