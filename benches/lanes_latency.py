#!/usr/bin/env python3
"""How long a question to a device worker takes on its way there and back, through any launcher.

    python3 benches/lanes_latency.py [--count 300] COMMAND...

Greets the worker on the host device, asks for its clocks, and prints the median and the 90th percentile in milliseconds.
"""

import json
import statistics
import subprocess
import sys
import time


def main():
    words = sys.argv[1:]
    count = 300
    if words[:1] == ["--count"]:
        count, words = int(words[1]), words[2:]
    worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def ask(number, body):
        worker.stdin.write(json.dumps({"v": 5, "id": number, "body": body}).encode() + b"\n")
        while True:
            answer = json.loads(worker.stdout.readline())["body"]
            if answer["type"] not in ("phase", "beat"):
                return answer

    opened = ask(1, {"type": "hello", "device": "host", "expected_cache": None, "support_cubin": None})
    if opened["type"] != "ready":
        sys.exit(f"no worker: {opened}")
    times = []
    for number in range(2, count + 2):
        began = time.perf_counter()
        ask(number, {"type": "telemetry"})
        times.append((time.perf_counter() - began) * 1e3)
    worker.stdin.close()
    worker.wait()
    times.sort()
    print(json.dumps({
        "command": " ".join(words),
        "count": count,
        "median_ms": round(statistics.median(times), 4),
        "p90_ms": round(times[int(0.9 * len(times))], 4),
    }))


if __name__ == "__main__":
    main()
