"""From rows to numbers and Markdown; no process, clock or device here, so that all of it can be tested.

The optimum of a kernel is the best time that the neutral timer found among all configurations it was given, which are
the best of every run of either tool. A run has reached it when the verdict on a configuration within 1 % of it, by
the neutral timer, is there. Where no neutral times exist, the tools' own times stand in, and the table says so.
"""

import math
import statistics

WITHIN = 1.01
MARKS_S = (1, 2, 5, 10, 20, 40)


def contenders(rows, per_run=12, slack=1.05, limit=60):
    """Keys that the neutral timer should measure, for the rows of one kernel: champions first.

    Besides each run's champion, whatever a tool timed within `slack` of the best that this tool saw in any run.
    """
    runs = [row for row in rows if row["kind"] == "run"]
    best = {}
    for row in runs:
        for _, _, measured, _ in row["curve"]:
            if measured is not None:
                best[row["tool"]] = min(best.get(row["tool"], math.inf), measured)
    keys = [row["champion"] for row in runs if row.get("champion")]
    near = []
    for row in runs:
        timed = sorted((p[2] / best[row["tool"]], p[1]) for p in row["curve"] if p[2] is not None)
        near += [pair for pair in timed[:per_run] if pair[0] <= slack]
    return list(dict.fromkeys([*keys, *(key for _, key in sorted(near))]))[:limit]


def neutral_times(rows, kernel):
    """The last neutral times of a kernel, or {}: times of different sittings do not mix."""
    found = [row for row in rows if row["kind"] == "retime" and row["kernel"] == kernel and row.get("times_ns")]
    return found[-1]["times_ns"] if found else {}


def optimum(rows, kernel):
    """(nanoseconds, {key: nanoseconds}, whether they are neutral) for a kernel, or None without any time."""
    times = neutral_times(rows, kernel)
    if times:
        return min(times.values()), times, True
    times = {}
    for row in rows:
        if row["kind"] == "run" and row["kernel"] == kernel:
            for _, key, measured, _ in row["curve"]:
                if measured is not None:
                    times[key] = min(times.get(key, math.inf), measured)
    return (min(times.values()), times, False) if times else None


def reached_s(row, best_ns, times):
    """Seconds from the command to the first verdict within 1 % of the optimum, or None."""
    for at, key, measured, _ in row["curve"]:
        if measured is not None and times.get(key, math.inf) <= WITHIN * best_ns:
            return at
    return None


def best_so_far(row, at_s, times):
    """Nanoseconds of the best configuration known after `at_s`, by the neutral timer where it measured it."""
    seen = [point for point in row["curve"] if point[0] <= at_s and point[2] is not None]
    if not seen:
        return None
    best = min(seen, key=lambda point: point[2])
    return times.get(best[1], best[2])


def per_second(row):
    """Evaluations a second of the search: from its start to its last verdict."""
    if not row["evaluations"] or row.get("search_s") is None or row["last_s"] <= row["search_s"]:
        return None
    return row["evaluations"] / (row["last_s"] - row["search_s"])


def summary(rows, kernel, budget):
    """One dict per tool and strategy for a kernel and a budget."""
    known = optimum(rows, kernel)
    groups = {}
    for row in rows:
        if row["kind"] == "run" and row["kernel"] == kernel and row["budget"] == budget:
            groups.setdefault((row["tool"], row["strategy"]), []).append(row)
    found = []
    for (tool, strategy), runs in sorted(groups.items()):
        good = [run for run in runs if not run.get("error")]
        line = {"tool": tool, "strategy": strategy, "runs": len(good)}
        line["failures"] = [(run["seed"], run["error"]) for run in runs if run.get("error")]
        line["per_second"] = values(per_second(run) for run in good)
        line["evaluations"] = values(run["evaluations"] for run in good)
        line["first_s"] = values(run["first_s"] for run in good)
        line["wall_s"] = values(run["wall_s"] for run in good)
        line["reached_s"], line["champion"], line["marks"] = [], [], []
        if known:
            best_ns, times, _ = known
            line["reached_s"] = [reached_s(run, best_ns, times) for run in good]
            line["champion"] = values(champion_ratio(run, best_ns, times) for run in good)
            for mark in MARKS_S:
                at = values(best_so_far(run, mark, times) for run in good)
                line["marks"].append(statistics.median(at) / best_ns if len(at) == len(good) and at else None)
        found.append(line)
    return found


def champion_ratio(run, best_ns, times):
    """How much slower the run's champion is than the optimum, as a ratio."""
    measured = times.get(run.get("champion"))
    return measured / best_ns if measured else None


def values(numbers):
    return [number for number in numbers if number is not None]


def median_reached(line):
    """The median over all runs, where a run that did not reach counts as never; None: half of them did not."""
    times = [math.inf if t is None else t for t in line["reached_s"]]
    middle = statistics.median(times) if times else math.inf
    return None if math.isinf(middle) else middle


def comparison(rows, kernel, budget):
    """evo's `evolve` against the best of Kernel Tuner's strategies: ratios, or None where one side lacks runs."""
    lines = summary(rows, kernel, budget)
    ours = next((line for line in lines if line["tool"] == "evo" and line["strategy"] == "evolve"), None)
    peers = [line for line in lines if line["tool"] == "kernel_tuner" and line["per_second"]]
    if not ours or not ours["per_second"] or not peers:
        return None
    fastest = max(peers, key=lambda line: statistics.median(line["per_second"]))
    pace = statistics.median(ours["per_second"]) / statistics.median(fastest["per_second"])
    reached = [median_reached(line) for line in peers]
    # Who never got there took at least as long as it ran: then the ratio is a lower bound.
    ends = [m if m is not None else statistics.median(line["wall_s"]) for m, line in zip(reached, peers)]
    soonest = min(values(reached), default=None)
    mine = median_reached(ours)
    ratio = None if mine is None else (soonest if soonest is not None else max(ends)) / mine
    return {"kernel": kernel, "pace": pace, "fastest": fastest["strategy"], "time_ratio": ratio, "bound": soonest is None}


def table(rows):
    """The whole report as Markdown."""
    text = ["# evo and Kernel Tuner on the same kernels", ""]
    for row in rows:
        if row["kind"] == "conditions":
            text += [f"- {name}: {value}" for name, value in row["values"].items()] + [""]
    runs = [row for row in rows if row["kind"] == "run"]
    for kernel in dict.fromkeys(row["kernel"] for row in runs):
        known = optimum(rows, kernel)
        for budget in sorted({row["budget"] for row in runs if row["kernel"] == kernel}):
            text += section(kernel, budget, summary(rows, kernel, budget), known)
    text += bars(rows, runs)
    missing = [row for row in rows if row["kind"] in ("skipped", "retime") and row.get("error")]
    if missing:
        text += ["## What did not run", ""]
        text += [f"- {row['kind']}: {label(row)}: {row['error']}" for row in missing] + [""]
    return "\n".join(text)


def section(kernel, budget, lines, known):
    text = [f"## {kernel}, budget {budget}", ""]
    if known:
        clock = "the neutral timer" if known[2] else "the tools' own clocks (no neutral times)"
        text += [f"Optimum known: {known[0] / 1000:.2f} µs by {clock}. Medians (smallest to largest).", ""]
    text += [
        "| search | runs | evaluations | evaluations/s | first verdict, s | command, s | within 1 %, s | champion |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        text.append(
            f"| {name(line)} | {line['runs']} | {spread(line['evaluations'], 0)} | {spread(line['per_second'], 1)} "
            f"| {spread(line['first_s'], 2)} | {spread(line['wall_s'], 1)} | {reached(line)} | {ratios(line)} |"
        )
    for line in lines:
        text += [f"\nfailed: {name(line)}, seed {seed}: {why}" for seed, why in line["failures"]]
    text += ["", "Best so far over the optimum, median, after so many seconds of the command:", ""]
    text += ["| search | " + " | ".join(f"{mark} s" for mark in MARKS_S) + " |", "|---" * (len(MARKS_S) + 1) + "|"]
    for line in lines:
        cells = ["-" if ratio is None else f"{ratio:.3f}" for ratio in line["marks"]] or ["-"] * len(MARKS_S)
        text.append(f"| {name(line)} | " + " | ".join(cells) + " |")
    return [*text, ""]


def bars(rows, runs):
    text = ["## evo's `evolve` against Kernel Tuner's best strategy", ""]
    for budget in sorted({row["budget"] for row in runs}):
        found = values(comparison(rows, kernel, budget) for kernel in dict.fromkeys(row["kernel"] for row in runs))
        for one in found:
            time = "evo did not get within 1 %" if one["time_ratio"] is None else f"{one['time_ratio']:.1f} times sooner within 1 %"
            if one["bound"] and one["time_ratio"] is not None:
                time = "at least " + time + ", as Kernel Tuner did not get there in half of its runs or more"
            text.append(
                f"- budget {budget}, {one['kernel']}: {one['pace']:.1f} times the evaluations/s of {one['fastest']}; {time}"
            )
        ratios_found = [one["time_ratio"] for one in found]
        if found and all(ratio is not None and ratio > 0 for ratio in ratios_found):
            text.append(f"- budget {budget}: geometric mean of {len(found)}: {statistics.geometric_mean(ratios_found):.1f} times sooner")
    return [*text, ""]


def name(line):
    return f"{'Kernel Tuner' if line['tool'] == 'kernel_tuner' else 'evo'}, {line['strategy']}"


def label(row):
    return ", ".join(str(row[key]) for key in ("kernel", "tool", "strategy", "budget", "seed") if row.get(key) is not None)


def spread(numbers, digits):
    if not numbers:
        return "-"
    middle = f"{statistics.median(numbers):.{digits}f}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.{digits}f}–{max(numbers):.{digits}f})"


def reached(line):
    got = values(line["reached_s"])
    middle = median_reached(line)
    return f"{'-' if middle is None else f'{middle:.2f}'} ({len(got)} of {len(line['reached_s'])})"


def ratios(line):
    return spread([100 * (ratio - 1) for ratio in line["champion"]], 1) + (" % above" if line["champion"] else "")
