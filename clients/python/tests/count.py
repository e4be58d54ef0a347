"""Adds to the number in a file, under a lock: count.py URL NAME FILE TIMES."""

import sys
import time

import stile

url, name, file, times = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
lock = stile.Lock(name, url)
for _ in range(times):
    with lock:
        with open(file, encoding="ascii") as f:
            number = int(f.read())
        time.sleep(0.001)  # so that a second holder would read the same number
        with open(file, "w", encoding="ascii") as f:
            f.write(f"{number + 1}\n")
