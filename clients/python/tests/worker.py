"""Holds a lock for a test, which sends commands to stdin and reads events from stdout, one on each line.

worker.py URL NAME KEYWORDS, where the keywords of Lock are JSON or empty
"""

import json
import os
import sys
import time

import stile


def tell(event: str, **facts: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")  # at once, since two threads write
    sys.stdout.flush()


url, name, keywords = sys.argv[1], sys.argv[2], json.loads(sys.argv[3] or "{}")
lock = stile.Lock(name, url, **keywords, on_danger=lambda lock, error: tell("danger", error=type(error).__name__),
                  on_lost=lambda lock, error: tell("lost", held=lock.held))
try:
    with lock:
        tell("held", token=str(lock.token))
        for line in sys.stdin:
            command = line.strip()
            if command == "check":
                tell("checked", held=lock.held, token=str(lock.token))
            elif command == "fork":
                if os.fork() == 0:
                    break
                os.wait()
            elif command == "detach":
                tell("detached", handle=lock.detach())
                break
            elif command == "suspend":  # for an hour, during which only the wall clock goes on
                wall = time.time
                time.time = lambda: wall() + 3600
                tell("checked", held=lock.held, token=str(lock.token))
except stile.LockError as error:
    tell("error", error=type(error).__name__, text=str(error) + repr(lock))
else:
    tell("released")
