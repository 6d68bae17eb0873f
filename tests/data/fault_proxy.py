#!/usr/bin/env python3
"""Stands between evo and a worker and spoils what the worker says.

fault_proxy.py MODE AFTER TIMES FOLDER COMMAND...

`delay`, `duplicate` and `reorder` concern every line. `garble`, `cut` and `silence` happen to line AFTER of a process,
in TIMES processes at most; FOLDER counts them. `absent` is `cut`, and no process after it comes to a worker, as where a
launcher waits for a node.
"""

import os
import random
import subprocess
import sys
import threading
import time

mode, after, times, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
if mode == "absent" and os.path.exists(os.path.join(folder, "absent-0")):
    time.sleep(3600)
worker = subprocess.Popen(sys.argv[5:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def pass_on_requests():
    for line in iter(sys.stdin.buffer.readline, b""):
        worker.stdin.write(line)
    worker.stdin.close()


threading.Thread(target=pass_on_requests, daemon=True).start()


def may_spoil():
    """Takes one of the faults that are left."""
    for number in range(times):
        try:
            os.close(os.open(os.path.join(folder, f"{mode}-{number}"), os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            pass
    return False


def say(line):
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


chance = random.Random(after)
held = None
for number, line in enumerate(iter(worker.stdout.readline, b""), 1):
    spoils = number == after and mode in ("garble", "cut", "silence", "absent") and may_spoil()
    if spoils and mode == "garble":
        say(line[: len(line) // 2] + b"\n")
    elif spoils and mode in ("cut", "absent"):
        # As a launcher does that calls the loss of its node a success.
        os._exit(0)
    elif spoils:
        for _ in iter(worker.stdout.readline, b""):
            pass
    elif mode == "delay":
        time.sleep(chance.random() * 0.02)
        say(line)
    elif mode == "duplicate":
        say(line + line)
    elif mode == "reorder" and held is None and b'"phase"' in line and chance.random() < 0.5:
        held = line
    else:
        say(line)
        if held:
            say(held)
            held = None
