#!/usr/bin/env python3
"""How far short times of a search lie from long ones of the same variant.

host_short.py FOLDER ...: folders of studies. A short time is of 10 samples or less; what it is compared with is the least
time of 100 samples or more that any of the studies has of the same configuration and problem.
"""

import collections
import json
import pathlib
import statistics
import sys

times, least = collections.defaultdict(list), {}
for folder in sys.argv[1:]:
    for path in pathlib.Path(folder).rglob("journal.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line).get("record", {})
            own = record.get("evaluation") or record
            if "verdict" not in own:
                continue
            for measured in own.get("measurements", []):
                if measured["mode"] != "hot":
                    continue
                key = json.dumps(own["configuration"], sort_keys=True), measured["problem"]
                times[folder].append((key, measured["samples"], measured["p50_ns"]))
                if measured["samples"] >= 100:
                    least[key] = min(least.get(key, float("inf")), measured["p50_ns"])
for folder, own in times.items():
    ratios = sorted(time / least[key] for key, samples, time in own if samples <= 10 and key in least)
    if ratios:
        close = sum(ratio <= 1.2 for ratio in ratios)
        print(f"{folder}: {len(ratios)} short times, median {statistics.median(ratios):.2f}, {close} within 20 %")
