#!/usr/bin/env python3
"""The table of before_after.md: BEFORE and AFTER are lists, with commas, of what `cargo bench --bench space -- --json` printed."""

import json
import math
import statistics
import sys


def medians(node, path=()):
    """Every number of a result by its path, medians where there are several runs."""
    if isinstance(node, dict):
        if "median" in node:
            return {path: node["median"]}
        return {key: value for name, own in node.items() for key, value in medians(own, (*path, name)).items()}
    if isinstance(node, list):
        return {key: value for own in node for key, value in medians(own, (*path, own["neighborhood"])).items()}
    return {path: node} if isinstance(node, (int, float)) else {}


before, after = ([medians(json.load(open(name))) for name in own.split(",")] for own in sys.argv[1:3])
rows = {}
for path in before[0]:
    timed = any(word in path[-1] for word in ("seconds", "_ns", "ns_per", "peak"))
    if timed and all(own.get(path, 0) > 0 for own in before + after):
        old, new = ([own[path] for own in runs] for runs in (before, after))
        row = statistics.median(new) / statistics.median(old), path[0], max(old) / min(old)
        rows.setdefault("/".join(path[1:]), []).append(row)
for what, own in rows.items():
    mean = [math.exp(statistics.mean(math.log(row[place]) for row in own)) for place in (0, 2)]
    print(f"| {what} | {mean[0]:.2f} | {max(own)[0]:.2f} ({max(own)[1]}) | {mean[1]:.2f} |")
