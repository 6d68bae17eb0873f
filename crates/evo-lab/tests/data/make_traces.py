#!/usr/bin/env python3
"""Writes `traces.jsonl`: runs of two made-up tools on `tests/data/stencil__invented.json`. `walker` asks again for configurations it knows, `guesser` for some that the space does not allow.

    python3 make_traces.py > traces.jsonl
"""
import json
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SPACE = json.loads((ROOT / "tests" / "data" / "stencil__invented.json").read_text())
NAMES = [parameter["name"] for parameter in SPACE["params"]]
VALUES = [parameter["values"] for parameter in SPACE["params"]]
POINTS = list(zip(*(SPACE["rows"]["config"][name] for name in NAMES)))
ROWS = {point: number for number, point in enumerate(POINTS)}


def walker(rng):
    """Moves one parameter at a time, from the better of two; row numbers."""
    at, evals = rng.choice(POINTS), []
    time = lambda point: SPACE["rows"]["objective"][ROWS[point]] or float("inf")
    while len(evals) < 220:
        slot = rng.randrange(len(NAMES))
        to = at[:slot] + (rng.randrange(len(VALUES[slot])),) + at[slot + 1:]
        if to in ROWS:
            evals.append(ROWS[to])
            at = to if time(to) <= time(at) or rng.random() < 0.1 else at
    return {"evals": evals, "overhead_ms": 0.25}


def guesser(rng):
    """Values at random; -1 for what the space does not allow."""
    evals = []
    for _ in range(150):
        point = [rng.choice(values) for values in VALUES]
        evals.append(ROWS.get(tuple(own.index(value) for own, value in zip(VALUES, point)), -1))
    return {"evals": evals, "overhead_ms": [round(rng.uniform(0, 9), 3) for _ in evals]}


for tool in (walker, guesser):
    for run in range(4):
        line = {"tool": tool.__name__, "dataset": "stencil__invented", "run": run}
        print(json.dumps(line | tool(random.Random(run)), separators=(",", ":")))
