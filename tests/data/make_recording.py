#!/usr/bin/env python3
"""Writes `stencil__invented.json`: a made-up kernel on a made-up GPU, every configuration "measured" by a
formula.  Two of its parameters matter by their product, one hardly at all, and a corner fails.

    python3 make_recording.py > stencil__invented.json
"""
import itertools
import json
import math
import zlib

PARAMETERS = {
    "BLOCK_X": [8, 16, 32, 64, 128, 256],
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "TILE": [1, 2, 3, 4, 6, 8],
    "UNROLL": [1, 2, 3, 4],
    "STAGING": [False, True],
}
CONSTRAINTS = ["BLOCK_X * BLOCK_Y >= 32", "BLOCK_X * BLOCK_Y <= 1024", "TILE % UNROLL == 0"]


def is_valid(x, y, tile, unroll, staging):
    return 32 <= x * y <= 1024 and tile % unroll == 0


def noise(values):
    """Between 0 and 1, the same on every machine."""
    return zlib.crc32(repr(values).encode()) / 2**32


def measure(x, y, tile, unroll, staging):
    """Status and milliseconds."""
    threads, shared = x * y, (x + 2) * (y * tile + 2) * 4 * staging
    if shared > 49152 or threads * tile * unroll > 6144:
        return 1 + (shared > 49152), None
    time = 2.0 + 0.6 * abs(math.log2(threads) - 8) ** 1.5  # best with 256 threads
    time += 0.3 * abs(math.log2(x) - 5)  # rows of 32 for the memory
    time *= 1.0 + 0.25 * abs(math.log2(tile * y / 16))  # the tile counts by what a block covers
    time *= (0.8 if y * tile >= 8 else 1.15) if staging else 1.0
    time *= 1.0 + 0.02 * abs(unroll - 2)
    return 0, time * (1.0 + 0.08 * noise((x, y, tile, unroll, staging)))


def main():
    columns = {"config": {name: [] for name in PARAMETERS}, "objective": [], "status": [], "compile_ms": [],
               "validate_ms": [], "runs_ms": [], "framework_ms": []}
    for values in itertools.product(*PARAMETERS.values()):
        if not is_valid(*values):
            continue
        for (name, known), value in zip(PARAMETERS.items(), values):
            columns["config"][name].append(known.index(value))
        status, time = measure(*values)
        columns["objective"].append(None if time is None else round(time, 4))
        columns["status"].append(status)
        columns["compile_ms"].append(600 + 40 * values[2] * values[3])
        columns["validate_ms"].append(0 if status == 1 else 20)
        columns["runs_ms"].append(None if time is None else round(32 * time, 2))
        columns["framework_ms"].append(5)
    recording = {"format": "tuning-data/1", "kernel": "stencil", "gpu": "invented",
                 "objective": {"name": "time", "unit": "ms", "direction": "min"},
                 "params": [{"name": name, "values": values} for name, values in PARAMETERS.items()],
                 "constraints": CONSTRAINTS, "size": len(columns["status"]), "exhaustive": True}
    head = json.dumps(recording, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(column, separators=(',', ':'))}" for name, column in columns.items())
    print(head + ',\n "rows": {\n' + rows + "\n }\n}")


if __name__ == "__main__":
    main()
