#!/usr/bin/env python3
"""Runs other tools' search strategies on recorded spaces and scores them beside evo's in one table.

usage: crates/evo-lab/peers/search_peers.py [--data DIR] [--out FILE.json] [--page FILE.md] [--trace FILE.jsonl.gz] [--runs 25] [--seed 1] [--jobs 1]
                               [--strategies NAME,..] [--ours NAME,..] [--only NAME,..] [--python PYTHON] [--lab PROGRAM] [--limit 600]

The recordings are those of `--data`, else `tuning_data` in the shared folder (`$EVO_SHARED`, else `../shared`); without them
the script says so and ends. `search_peers_worker.py` runs the peers: Kernel Tuner's own strategies with its simulation
runner, and Optuna's TPE, with their default settings, each run until the virtual clock has passed the space's `run_until_ms`.
`evo-lab bench-search --judge` scores what they asked for, and runs evo's strategies in the same replay.

What the peers asked for goes to `--trace`, by default in `target`, run by run; those that the file holds already are not run
again, so an interrupted comparison goes on, `--runs 5` can be followed by 25, and evo's part alone can be repeated. The tables go to stdout,
progress to stderr, all numbers to `--out`, conditions and tables to `--page`. The kept run, on a machine that does nothing
else: `crates/evo-lab/peers/search_peers.py --out evidence/search/peers.json --page evidence/search/README.md`.

Peers come from PyPI (`PEERS`) into `target/search-peers`, unless `--python` names an interpreter that has them.
"""
import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("EVO_SHARED", ROOT / ".." / "shared")).resolve()
WORKER = Path(__file__).resolve().with_name("search_peers_worker.py")

# Kernel Tuner 1.5.0 imports its strategies at once, so pymoo and scikit-learn come with it.
PEERS = ["kernel_tuner==1.5.0", "python-constraint2==2.9.0", "numpy==2.4.6", "pymoo==0.6.2", "scikit-learn==1.9.1",
         "scipy==1.17.1", "optuna==5.0.0"]
# Names of distributions whose versions a reader wants to know.
NAMED = ["kernel_tuner", "optuna", "numpy", "scipy", "scikit-learn"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "tuning_data", help="a folder of recordings")
    parser.add_argument("--out", type=Path, help="write all numbers to this file")
    parser.add_argument("--page", type=Path, help="write the conditions and the tables to this file")
    parser.add_argument("--trace", type=Path, default=ROOT / "target" / "search-peers.jsonl.gz")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="peers side by side")
    parser.add_argument("--strategies", help="names of peers' strategies, by default all that are there")
    parser.add_argument("--ours", default="evolve,random", help="names of evo's strategies")
    parser.add_argument("--only", default="", help="names of spaces")
    parser.add_argument("--python", help="an interpreter that has the peers")
    parser.add_argument("--lab", help="the `evo-lab` program, by default built here in release")
    parser.add_argument("--limit", type=int, default=600, help="seconds of processor time that a peer's run may take")
    arguments = parser.parse_args()
    files = recordings(arguments)
    if not files:
        say(f"skipped: no recordings in `{arguments.data}`\nhint: set `EVO_SHARED`, or name a folder with `--data`")
        return
    python, lab = arguments.python or peers_python(), arguments.lab or lab_program()
    strategies = names(arguments.strategies) or peers_there(python)
    budgets = bench_search(lab, files, ["--strategy", "random", "--runs", "1"])["spaces"]
    play(python, strategies, {budget: files[budget] for budget in budgets}, budgets, arguments)
    runs = chosen(arguments, strategies, budgets)
    result = {"conditions": conditions(python, arguments), "unusual": unusual(runs)} | judged(lab, files, runs, arguments)
    print(tables(result))
    for path, text in [(arguments.out, json.dumps(result, indent=1)), (arguments.page, page(result))]:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")


def say(text):
    print(text, file=sys.stderr, flush=True)


def names(text):
    return [name for name in (text or "").split(",") if name]


def recordings(arguments):
    """Name of each space and its file."""
    files = sorted([*arguments.data.glob("*__*.json.gz"), *arguments.data.glob("*__*.json")])
    files = {path.name.removesuffix(".gz").removesuffix(".json"): path for path in files}
    only = names(arguments.only)
    return {name: path for name, path in files.items() if name in only or not only}


# ---- the tools


def peers_python():
    """An interpreter with the peers; makes one in `target` the first time."""
    folder = ROOT / "target" / "search-peers"
    python = folder / "bin" / "python"
    if not python.exists():
        say("installing the peers into target/search-peers")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if subprocess.run([python, "-c", "import kernel_tuner, optuna"], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


def peers_there(python):
    """All strategies whose packages the interpreter has."""
    every = json.loads(subprocess.run([python, WORKER, "--list"], check=True, capture_output=True, text=True).stdout)
    if subprocess.run([python, "-c", "import optuna"], capture_output=True).returncode != 0:
        say("note: left out: Optuna, which this interpreter does not have")
        every = [name for name in every if not name.startswith("optuna")]
    return every


def lab_program():
    """Builds the laboratory in release and finds the program that Cargo made."""
    command = ["cargo", "build", "--release", "-p", "evo-lab", "--bin", "evo-lab", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return [message["executable"] for message in messages if message.get("executable")][-1]


def bench_search(lab, files, more):
    """The answer of `evo-lab bench-search` on the recordings."""
    command = [lab, "bench-search", "--json", "--data", *map(str, files.values()), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: `evo-lab bench-search` ends with exit code {done.returncode}")
    return json.loads(done.stdout)


# ---- the peers' runs


def lines_of(trace):
    """The runs of a trace file, none if it is not there."""
    if not trace.exists():
        return []
    with gzip.open(trace, "rt") as file:
        return [json.loads(line) for line in file]


def play(python, strategies, files, budgets, arguments):
    """Runs what the trace lacks, and adds it there."""
    there = {}
    for line in lines_of(arguments.trace):
        there.setdefault((line["tool"], line["dataset"]), set()).add(line["run"])
    work = []
    for strategy in strategies:
        for name, file in files.items():
            lacks = [run for run in range(arguments.runs) if run not in there.get((strategy, name), ())]
            if lacks:
                work.append((strategy, name, file, lacks))
    arguments.trace.parent.mkdir(parents=True, exist_ok=True)

    lock = threading.Lock()

    def one(part):
        strategy, name, file, lacks = part
        start = time.monotonic()
        for first, last in spans(lacks):
            command = [python, WORKER, file, "--until", str(budgets[name]["run_until_ms"]), "--strategies", strategy,
                       "--runs", f"{first}:{last}", "--seed", str(arguments.seed), "--limit", str(arguments.limit)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
                for line in worker.stdout:
                    # A gzip file may have several members: what is there stays whatever comes.
                    with lock, gzip.open(arguments.trace, "at") as trace:
                        trace.write(line)
            if worker.returncode != 0:
                sys.exit(f"error: {strategy} on {name} ends with exit code {worker.returncode}")
        return f"{strategy} on {name}, {time.monotonic() - start:.0f} s"

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, done in enumerate(pool.map(one, work)):
            say(f"{number + 1}/{len(work)}: {done}")


def spans(numbers):
    """Runs of consecutive numbers, each with the one after its last."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, number + 1])
    return found


def chosen(arguments, strategies, budgets):
    """The runs of the trace that were asked for."""
    return [line for line in lines_of(arguments.trace) if line["tool"] in strategies and line["dataset"] in budgets
            and line["run"] < arguments.runs]


def unusual(runs):
    """Runs that did not end as runs do, by tool and space: how many, and the first error."""
    found = {}
    for line in runs:
        for key in ("cut_off_s", "failed"):
            if key in line:
                part = found.setdefault(line["tool"], {}).setdefault(line["dataset"], {"runs": 0, key: line[key]})
                part["runs"] += 1
    return found


def judged(lab, files, runs, arguments):
    """evo's scores of the peers' runs, and evo's own runs under the same clock."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
        for line in runs:
            # evo refuses a name that runs there too.
            trace.write(json.dumps(line | {"tool": "peer:" + line["tool"]}) + "\n")
        trace.flush()
        more = ["--judge", trace.name, "--runs", str(arguments.runs), "--seed", str(arguments.seed), "--jobs", "1"]
        if names(arguments.ours):
            more += ["--strategy", arguments.ours]
        answer = bench_search(lab, files, more)
    rows = {name.removeprefix("peer:"): row | {"peer": name.startswith("peer:")}
            for name, row in answer.pop("strategies").items()}
    return answer | {"strategies": dict(sorted(rows.items(), key=lambda pair: -score(pair[1])))}


def score(row):
    return -9.0 if row["score"] is None else row["score"]


def conditions(python, arguments):
    """What a reader needs to judge the numbers; nothing that names this very machine."""
    def output(*command):
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown")
    changed = output("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "crates", "Cargo.lock")
    listed = json.loads(output(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check") or "[]")
    versions = {one["name"].replace("-", "_").lower(): one["version"] for one in listed}
    return {
        "utc": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "cpu": model, "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": output(python, "-c", "import platform; print(platform.python_version())"),
        "versions": {name: versions.get(name.replace("-", "_")) for name in NAMED}, "rustc": output("rustc", "--version"),
        "evo_commit": output("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "runs": arguments.runs, "seed": arguments.seed, "load_average": round(os.getloadavg()[0], 1),
    }


# ---- tables


def page(result):
    """A page for `evidence`: how it was measured, then the tables."""
    had = result["conditions"]
    versions = ", ".join(f"{name} {version}" for name, version in had["versions"].items() if version)
    peers = {name: row for name, row in result["strategies"].items() if row["peer"]}
    ours = {name: row for name, row in result["strategies"].items() if not row["peer"]}
    best = [f"{max(part, key=lambda name: score(part[name]))} {shown(max(map(score, part.values())))}"
            for part in (ours, peers) if part]
    odd = [f"{name} on {space}: {part['runs']} runs {'cut off' if 'cut_off_s' in part else 'ended by ' + part['failed']}"
           for name, spaces in result["unusual"].items() for space, part in spaces.items()]
    return f"""
# Searches beside Kernel Tuner's and Optuna's on recorded spaces, {had["utc"][:10]}

`crates/evo-lab/peers/search_peers.py --out evidence/search/peers.json --page evidence/search/README.md` wrote this page and
[peers.json](peers.json) (all numbers). {had["cpu"]}, {had["cpus"]} cores, {had["system"]}, {had["rustc"]},
Python {had["python"]}, {versions}. evo at `{had["evo_commit"]}`, release build. {had["runs"]} runs of each strategy on each space,
seeds from {had["seed"]}. Load average {had["load_average"]} at the end.

**Best of evo and of the others, mean score: {", ".join(best)}.**

A score of 0 is random search, 1 is the optimum from the first moment; [how scores are made](../../docs/bench_search.md). All strategies
have their default settings and the same clock: the recorded cost of each evaluation, and the strategy's own time. For the peers that is
processor time, for evo wall time. Asking for the same configuration again costs its benchmark runs again; a configuration that the
constraints forbid costs nothing. No strategy is stopped before the clock ends; a strategy that ends by itself keeps its best. Strategies
of Kernel Tuner that would end after 100 evaluations or a tenth of the space get the size of the space as their limit. `optuna_tpe` sees
each parameter as the position among its values, and failed or forbidden configurations as violated constraints.

Beside this page: [evo's strategies alone](replay/commands.sh), 100 runs, with ablation, warm starts and synthetic spaces; [on a GPU](h200/README.md).
{"".join(f"{line}. " for line in odd)}
""".lstrip() + "\n" + tables(result)


def tables(result):
    """Markdown: scores by space, then how surely and at what price."""
    spaces, rows = list(result["spaces"]), result["strategies"]
    lines = ["| strategy | all | " + " | ".join(spaces) + " |", "|---" * (2 + len(spaces)) + "|"]
    for name, row in rows.items():
        cells = [shown((row["spaces"].get(space) or {}).get("score"), 2) for space in spaces]
        lines.append(f"| {label(name, row)} | {shown(row['score'])} | " + " | ".join(cells) + " |")
    peers = [row for row in rows.values() if row["peer"]]
    best = [max((row["spaces"][space]["score"] or -9 for row in peers if space in row["spaces"]), default=None)
            for space in spaces]
    if peers and None not in best:
        mean = sum(best) / len(best)
        lines.append(f"| *the best of the others for each space* | {shown(mean)} | " + " | ".join(shown(one, 2) for one in best) + " |")
    lines += ["", "| strategy | runs that missed 5 % | missed 1 % | distinct evaluations | repeats | failures "
              "| not allowed | own time, median | p95 |", "|---" * 9 + "|"]
    lines += [behavior(name, row) for name, row in rows.items()]
    return "\n".join(lines)


def behavior(name, row):
    """Over all spaces: runs that got stuck, and a run's mean counts."""
    spaces = row["spaces"].values()
    runs = sum(space["runs"] for space in spaces)
    stuck = [f"{100 * sum(space[key]['runs_stuck'] for space in spaces) / runs:.0f} %"
             for key in ("within_5_percent", "within_1_percent")]
    mean = [f"{sum(space['per_run'][key] for space in spaces) / len(spaces):.0f}"
            for key in ("distinct", "repeats", "failures", "illegal")]
    time = row["own_time"] or {}
    own = [f"{time[key]:.2f} ms" if time else "" for key in ("median_ms", "p95_ms")]
    return f"| {label(name, row)} | " + " | ".join(stuck + mean + own) + " |"


def label(name, row):
    return f"`{name}`" if row["peer"] else f"**evo `{name}`**"


def shown(value, places=3):
    return "-" if value is None else f"{value:.{places}f}"


if __name__ == "__main__":
    main()
