#!/usr/bin/env python3
"""The tables of README.md, from results/. usage: compare.py"""
import csv
import gzip
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).resolve().parent / "results"
STRATEGIES, SEEDS = ["evolve", "genetic", "random"], range(1, 6)


def rows(name):
    with gzip.open(RESULTS / f"{name}.csv.gz", "rt") as file:
        return sorted(csv.DictReader(file), key=lambda row: int(row["number"]))


def point(row):
    """The parameters: the columns between `origin` and `verdict`."""
    names = list(row)
    return tuple(row[name] for name in names[names.index("origin") + 1 : names.index("verdict")])


def gemm():
    """What a run found, by the exhaustive sweep's measurements: those of one run for all."""
    times = {point(row): float(row["objective_ns"]) for row in rows("gemm-exhaustive")}
    optimum = min(times.values())
    print(f"gemm: {len(times)} points, optimum {optimum / 1e3:.1f} us; best of 100 evaluations / optimum, its rank, evaluations to 5 %")
    for strategy in STRATEGIES:
        cells = []
        for seed in SEEDS:
            found = [times[point(row)] for row in rows(f"gemm-{strategy}-{seed}") if row["verdict"] != "passed_over"]
            rank = 1 + sum(time < min(found) for time in times.values())
            near = next((at for at, time in enumerate(found, 1) if time <= 1.05 * optimum), "-")
            cells.append((min(found) / optimum, rank, near))
        print(f"| `{strategy}` | {median(cell[0] for cell in cells):.3f} | " + " | ".join(f"{a:.3f} ({b}, {c})" for a, b, c in cells) + " |")


def attention():
    print("attention_simt: best of 150 evaluations, us, as each run measured it")
    for strategy in STRATEGIES:
        best = [min(float(row["objective_ns"]) for row in rows(f"attention_simt-{strategy}-{seed}") if row["verdict"] == "pass") / 1e3
                for seed in SEEDS]
        print(f"| `{strategy}` | {median(best):.1f} | " + " | ".join(f"{time:.1f}" for time in best) + " |")


gemm()
attention()
