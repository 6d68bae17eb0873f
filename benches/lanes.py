#!/usr/bin/env python3
"""Measures `evo sweep --workers` on a machine with two GPUs, in under six minutes.

    python3 benches/lanes.py [--evo PATH] [--out evidence/lanes] [--seeds 5] [--seconds 12]

Three things, each written to `lanes.json` and as a table to `table.md`:

- search: the same wall budget on one GPU and on two, over several seeds; evaluations a second and the best found;
- noise: the largest difference of a kernel from itself on one card, with the other card idle and busy;
- ratio: how many times as long as the first card the second one takes, as the anchors of each sweep say.

Each sweep has a cache of its own, with evo's own kernels and the default alone, so that none finds what another compiled. With `--lanes host:1 host:2` it runs without
a GPU, to try the script itself. `--lab PATH --recordings DIR` adds the score of a search with 64 proposals in flight
beside one, played from recordings.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def run(options, words, scratch):
    """One sweep; its last object, the file's name apart."""
    folder = tempfile.mkdtemp(dir=scratch)
    command = [options.evo, "sweep", *words, "--json", "--no-prior", "--sanitize", "off", "--out", folder]
    cache = os.path.join(folder, "cache")
    if words[0] in options.warm:
        shutil.copytree(options.warm[words[0]], cache)
    environment = {**os.environ, "EVO_CACHE_DIR": cache}
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    seconds = time.monotonic() - began
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    result = json.loads(lines[-1]) if lines else {}
    if "throughput" not in result:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return {"command": " ".join(command[:-2]), "wall_seconds": seconds, **result}


def warm(options, scratch):
    """A cache for each space with evo's own kernels and the reference's answers, and the default alone of the variants."""
    options.warm = {}
    for space in options.spaces:
        before = set(os.listdir(scratch))
        run(options, [space, "--budget", "1", "--finalists", "0", "--seed", "1", "--workers", options.lanes[0]], scratch)
        folder = (set(os.listdir(scratch)) - before).pop()
        options.warm[space] = os.path.join(scratch, folder, "cache")


def best(result):
    """The champion's time and its speed beside the baseline; of what was screened where nothing was confirmed."""
    section = result.get("section")
    if not section:
        return None, None
    champion = section["champion"]
    return champion["objective_ns"], champion.get("speedup")


def search(options, scratch):
    rows = []
    for space in options.spaces:
        for seed in range(1, options.seeds + 1):
            # In turns, so that a card that becomes warm favors nobody.
            order = options.lanes if seed % 2 else options.lanes[::-1]
            for lanes in order:
                words = [space, "--strategy", "evolve", "--seed", str(seed), "--budget", f"{options.seconds}s"]
                words += ["--finalists", "1", "--workers", lanes]
                result = run(options, words, scratch)
                objective, speedup = best(result)
                rows.append({
                    "space": space,
                    "seed": seed,
                    "lanes": lanes,
                    "evaluations": result["evaluations"],
                    "per_second": result["throughput"]["evaluations_per_second"],
                    "device_busy": result["throughput"]["device_busy"],
                    "compile_busy": result["throughput"]["compile_busy"],
                    "best_ns": objective,
                    "speedup": speedup,
                    "verdicts": result["verdicts"],
                    "each": result.get("lanes", []),
                    "command": result["command"],
                })
                print(json.dumps({key: rows[-1][key] for key in ("space", "seed", "lanes", "per_second", "best_ns")}))
    return rows


def noise(options, scratch):
    """The noise floor of the first lane's card, with the second one idle and under a search."""
    single, both = options.lanes
    words = [options.spaces[0], "--gen", "1", "--pop", "2", "--finalists", "1", "--seed", "1", "--workers", single]
    floors = {"idle": [], "busy": []}
    for state in floors:
        load = None
        if state == "busy":
            folder = tempfile.mkdtemp(dir=scratch)
            other = both.split(":")[1].split(",")[-1] if both.startswith("gpus:") else None
            where = ["--workers", f"gpus:{other}"] if other else ["--device", "host"]
            command = [options.evo, "sweep", options.spaces[0], "--budget", "120s", "--no-prior", "--finalists", "0"]
            load = subprocess.Popen(
                command + where + ["--out", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "EVO_CACHE_DIR": os.path.join(folder, "cache")},
            )
            time.sleep(8)
        for _ in range(options.floors):
            section = run(options, words, scratch).get("section") or {}
            floors[state].append(section.get("noise_floor"))
        if load:
            load.terminate()
            load.wait()
    return floors


def score(options):
    """The lab's score with one proposal in flight and with 64."""
    if not (options.lab and options.recordings):
        return None
    scores = {}
    for batch in ("1", "64"):
        command = [options.lab, "bench-search", "--data", options.recordings, "--strategy", "evolve", "--runs", "12"]
        command += ["--no-overhead", "--batch", batch, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        scores[batch] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-500:]
    return scores


def table(options, data):
    single, both = options.lanes
    lines = [
        f"| space | evaluations/s, `{single}` | `{both}` | ratio | best, `{single}` | `{both}` | ratio of the cards |",
        "|---|---|---|---|---|---|---|",
    ]
    for space in options.spaces:
        rows = {lanes: [row for row in data["search"] if row["space"] == space and row["lanes"] == lanes]
                for lanes in options.lanes}
        rate = {lanes: statistics.median(row["per_second"] for row in own) for lanes, own in rows.items()}
        times = {lanes: [row["best_ns"] for row in own if row["best_ns"]] for lanes, own in rows.items()}
        shown = {lanes: f"{statistics.median(own) / 1e3:.1f} µs" if own else "-" for lanes, own in times.items()}
        cards = [lane["ratio"] for row in rows[both] for lane in row["each"] if lane["lane"] == 1]
        lines.append(
            f"| `{space}` | {rate[single]:.2f} | {rate[both]:.2f} | {rate[both] / rate[single]:.2f} | "
            f"{shown[single]} | {shown[both]} | {statistics.median(cards):.3f} |" if cards else
            f"| `{space}` | {rate[single]:.2f} | {rate[both]:.2f} | {rate[both] / rate[single]:.2f} | "
            f"{shown[single]} | {shown[both]} | - |"
        )
    lines += ["", "| the other card | A/A noise floor |", "|---|---|"]
    for state, floors in data["noise"].items():
        known = [f"{floor * 100:.2f} %" for floor in floors if floor is not None]
        lines.append(f"| {state} | {', '.join(known) or '-'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evo", default="target/release/evo")
    parser.add_argument("--out", default="evidence/lanes")
    parser.add_argument("--spaces", nargs="+", default=["gemm", "attention_simt"])
    parser.add_argument("--lanes", nargs=2, default=["gpus:0", "gpus:0,1"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--floors", type=int, default=3)
    parser.add_argument("--lab")
    parser.add_argument("--recordings")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        warm(options, scratch)
        data = {"search": search(options, scratch), "noise": noise(options, scratch), "score": score(options)}
    data["seconds"] = time.monotonic() - began
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "lanes.json"), "w") as file:
        json.dump(data, file, indent=1)
    text = table(options, data)
    with open(os.path.join(options.out, "table.md"), "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
