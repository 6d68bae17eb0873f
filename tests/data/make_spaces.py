#!/usr/bin/env python3
"""Writes `spaces/*.json`: made-up search spaces in the style of other tuners', each with what it must hold.

The expected numbers come from Python alone: every point of the cartesian product is tried with `eval`.  A
point's rank is its index in that product with the last parameter changing fastest; `rank_sum` is the sum of the
ranks of the valid points, which tells sets of equal size apart.

    python3 make_spaces.py
"""
import itertools
import json
from pathlib import Path

# Tiles of a matrix product: divisibility and products that must fit, as in hand-written CUDA kernels.
BLOCKED = {
    "BLOCK_M": [16, 32, 48, 64, 96, 128],
    "BLOCK_N": [16, 32, 48, 64, 96, 128],
    "THREAD_M": [1, 2, 3, 4, 6, 8],
    "THREAD_N": [1, 2, 3, 4, 6, 8],
    "DEPTH": [4, 8, 12, 16, 24, 32],
    "VECTOR": [1, 2, 4],
    "PAD": [False, True],
    "STAGES": [1, 2, 3, 4],
}
BLOCKED_CONSTRAINTS = [
    "BLOCK_M % THREAD_M == 0 and BLOCK_N % THREAD_N == 0",
    "32 <= (BLOCK_M / THREAD_M) * (BLOCK_N / THREAD_N) <= 1024",
    "(BLOCK_M / THREAD_M) * (BLOCK_N / THREAD_N) % 32 == 0",
    "DEPTH % VECTOR == 0",
    "THREAD_N % VECTOR == 0 or not PAD",
    "4 * STAGES * DEPTH * (BLOCK_M + BLOCK_N + 2 * PAD) <= 65536",
]

# Chains of divisors, as generated tilings have them: each size divides the one before it.
CHAINED = {
    "SIZE": [24],
    "CACHE": [0, 1],
    "LEVEL_A": [2, 1, 0],
    "LEVEL_B": [2, 1, 0],
    "TILE_1": [1, 2, 3, 4, 6, 8, 12, 24],
    "TILE_2": [1, 2, 3, 4, 6, 8, 12, 24],
    "GROUPS": [1, 2, 3, 4, 6, 8, 12, 24],
    "ITEMS": [1, 2, 3, 4, 6, 8, 12, 24],
    "AXIS": ["x", "y"],
}
CHAINED_CONSTRAINTS = [
    "LEVEL_B <= LEVEL_A",
    "SIZE % TILE_1 == 0",
    "TILE_1 % TILE_2 == 0",
    "(SIZE / TILE_1) % GROUPS == 0",
    "(TILE_1 / TILE_2) % ITEMS == 0",
    "ITEMS <= (SIZE + GROUPS - 1) / GROUPS",
    "CACHE == 0 or AXIS == 'x' or LEVEL_A > 0",
]

# A stencil with a shared-memory budget that nearly every parameter enters: many valid points, few of all.
WINDOWED = {
    "block_x": [1, 2, 4, 8, 16, 32, 64, 96, 128, 256],
    "block_y": [1, 2, 4, 8, 16, 32],
    "tile_x": list(range(1, 11)),
    "tile_y": list(range(1, 11)),
    "steps": list(range(1, 9)),
    "unroll": [1, 2, 3, 4],
    "per_sm": [0, 1, 2, 3],
    "cached": [0, 1],
}
WINDOWED_CONSTRAINTS = [
    "32 <= block_x * block_y <= 1024",
    "steps % unroll == 0",
    "block_x * tile_x > steps * 2 and block_y * tile_y > steps * 2",
    "(block_x * tile_x + steps * 2) * (block_y * tile_y + steps * 2) * (2 + cached) * 4 <= 49152",
    "per_sm == 0 or (block_x * tile_x + steps * 2) * (block_y * tile_y + steps * 2) * 12 * per_sm <= 102400",
]

SPACES = {
    "blocked_product": (BLOCKED, BLOCKED_CONSTRAINTS),
    "chained_tiles": (CHAINED, CHAINED_CONSTRAINTS),
    "windowed_stencil": (WINDOWED, WINDOWED_CONSTRAINTS),
}


def main():
    folder = Path(__file__).parent / "spaces"
    folder.mkdir(exist_ok=True)
    for name, (parameters, constraints) in SPACES.items():
        allowed = eval(f"lambda {', '.join(parameters)}: " + " and ".join(f"({text})" for text in constraints))
        count = valid = rank_sum = 0
        for rank, point in enumerate(itertools.product(*parameters.values())):
            count += 1
            if allowed(*point):
                valid += 1
                rank_sum += rank
        space = {"name": name, "parameters": parameters, "constraints": constraints, "expected_cartesian": count,
                 "expected_valid": valid, "rank_sum": str(rank_sum), "source": "made up: tests/data/make_spaces.py"}
        lists = ",\n".join(f"    {json.dumps(own)}: {json.dumps(values)}" for own, values in parameters.items())
        rest = json.dumps({key: value for key, value in space.items() if key not in ("name", "parameters")}, indent=2)
        (folder / f"{name}.json").write_text(
            f'{{\n  "name": {json.dumps(name)},\n  "parameters": {{\n{lists}\n  }},\n{rest[2:]}\n')
        print(f"{name}: {valid} of {count}")


if __name__ == "__main__":
    main()
