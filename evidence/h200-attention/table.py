"""The table of three bench runs: python3 table.py OUT SPACE...
With `--chosen LEADERBOARD.json`: the words of each configuration that a search confirmed as the fastest of its problems.

For each problem: the candidate that was fastest in the median of the runs, hot, beside the best right peer, and the same
two cold. The last line of a space has the geometric means of both, and of the best single candidate.
"""
import csv
import json
import math
import pathlib
import statistics
import sys


def read(out, space):
    """Medians over the runs of every row's p50, nanoseconds, by problem, implementation and mode; right rows only."""
    times = {}
    for path in sorted(pathlib.Path(out).glob(f"{space}-[0-9]-bench.csv")):
        for row in csv.DictReader(path.open()):
            for mode in ("hot", "cold"):
                if row["status"] == "pass" and row.get(f"{mode}_p50_ns"):
                    # A leading apostrophe keeps spreadsheets from reading a name as a formula.
                    key = (row["problem"], row["implementation"].lstrip("'"), mode)
                    times.setdefault(key, []).append(float(row[f"{mode}_p50_ns"]))
    return {key: (statistics.median(own), len(own)) for key, own in times.items()}


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def show(out, space):
    times = read(out, space)
    problems = list(dict.fromkeys(key[0] for key in times))
    print(f"{space}\n| problem | candidate | hot, µs | peer | its, µs | speed-up | cold, µs | its, µs | speed-up | runs |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    ratios, cold, single = [], [], {}
    for problem in problems:
        def fastest(is_peer, mode):
            own = [(time[0], key[1], time[1]) for key, time in times.items()
                   if key[0] == problem and key[2] == mode and ("/" in key[1]) == is_peer]
            return min(own, default=(math.nan, "none", 0))
        ours, peers = fastest(False, "hot"), fastest(True, "hot")
        cold_peer = fastest(True, "cold")
        cold_own = times.get((problem, ours[1], "cold"), (math.nan, 0))[0]
        print(f"| {problem} | {ours[1]} | {ours[0] / 1e3:.2f} | {peers[1]} | {peers[0] / 1e3:.2f} | {peers[0] / ours[0]:.2f}× "
              f"| {cold_own / 1e3:.2f} | {cold_peer[0] / 1e3:.2f} | {cold_peer[0] / cold_own:.2f}× | {ours[2]} |")
        ratios.append(peers[0] / ours[0])
        cold.append(cold_peer[0] / cold_own)
        for key, time in times.items():
            if key[0] == problem and key[2] == "hot" and "/" not in key[1]:
                single.setdefault(key[1], []).append(peers[0] / time[0])
    flash = [times[(problem, "torch/sdpa_flash", "hot")][0] for problem in problems
             if (problem, "torch/sdpa_flash", "hot") in times]
    whole = {name: mean(own) for name, own in single.items() if len(own) == len(problems)}
    best = max(whole, key=whole.get, default=None)
    print(f"geometric means: {mean(ratios):.3f}× hot, {mean(cold):.3f}× cold; one for all, {best}: "
          f"{whole.get(best, math.nan):.3f}× hot, at worst {min(single.get(best, [math.nan])):.3f}×")
    if problems and len(flash) == len(problems):
        own = [peer / min(time[0] for key, time in times.items()
                          if key[0] == problem and key[2] == "hot" and "/" not in key[1])
               for problem, peer in zip(problems, flash)]
        print(f"against torch/sdpa_flash: {mean(own):.3f}× hot, at worst {min(own):.3f}×")
    print()


def chosen(path):
    seen = []
    for section in json.loads(pathlib.Path(path).read_text())["sections"]:
        champion = section.get("champion")
        words = champion and " ".join(f"{name}={value}" for name, value in champion["configuration"].items())
        if words and words not in seen:
            seen.append(words)
    print("\n".join(seen))


if sys.argv[1] == "--chosen":
    chosen(sys.argv[2])
else:
    for name in sys.argv[2:]:
        show(sys.argv[1], name)
