"""Locks with py-consul by two replicas of the lock service, beside stile run.

Arguments: the command stile, and the addresses of the replicas, as host:port. It ends with 1 at the first surprise.
"""

import subprocess
import sys
import time

import consul

stile, addresses = sys.argv[1], sys.argv[2:]
clients = [consul.Consul(host=host, port=int(port)) for host, port in (a.split(":") for a in addresses)]
one, two = clients


def check(what, got, want):
    if got != want:
        sys.exit(f"{what} = {got!r}; want {want!r}")
    print(f"{what}: {got!r}")


def stile_run(name):
    """Reports whether stile run gets a lock at once."""
    return subprocess.run([stile, "run", name, "--wait", "0", "--", "true"], stderr=subprocess.DEVNULL).returncode == 0


mine = one.session.create(name="mine", ttl=10, lock_delay=0)
other = two.session.create(name="other", ttl=10, lock_delay=0)
key = "orders/.lock"
check("a free key", one.kv.get(key)[1], None)
check("the first acquires", one.kv.put(key, "mine", acquire=mine), True)
check("the second does not", two.kv.put(key, "other", acquire=other), False)
check("stile run gets the lock", stile_run("orders"), False)
index, pair = two.kv.get(key)
check("the holder", (pair["Session"], pair["Value"]), (mine, b"mine"))
check("the renewal by the other replica", two.session.renew(mine)["ID"], mine)
began = time.monotonic()
same, _ = two.kv.get(key, index=index, wait="1s")
check("the query waits", (same == index, time.monotonic() - began >= 1), (True, True))
check("the first releases by the other replica", two.kv.put(key, "", release=mine), True)
check("the query for the key that went", two.kv.get(key, index=index)[1], None)
check("stile run gets the lock", stile_run("orders"), True)
check("the second acquires", two.kv.put(key, "other", acquire=other), True)
check("its session ends", one.session.destroy(other), True)
check("stile run gets the lock", stile_run("orders"), True)
check("the end of the first session", two.session.destroy(mine), True)
check("sessions that are left", one.session.list()[1], [])
