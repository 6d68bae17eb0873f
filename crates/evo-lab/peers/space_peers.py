#!/usr/bin/env python3
"""Runs evo's first load of a space side by side with Kernel Tuner and pyATF, and judges the bars.

usage: crates/evo-lab/peers/space_peers.py [--out FILE.json] [--page FILE.md] [--rounds 5] [--timeout 60] [--only NAME,..] [--python PYTHON]
                              [--no-operations]

The spaces and the peers' harness are in the shared folder (`$EVO_SHARED`, else `../shared`: `spaces/` and
`space_bench/`); without it the script says so and ends. Each measurement is one process that has done nothing
else: the peers through the harness's `worker.py`, evo through `cargo bench --bench space`'s cold mode.
Reading the file and imports are outside the clock, everything a tool then does to know its count is inside; for evo
that includes parsing the document. Rounds interleave the tools, so that noise meets all of them.

The tables go to stdout, progress to stderr, all numbers to `--out`, conditions and tables to `--page`. The kept run, on a
machine that does nothing else: `crates/evo-lab/peers/space_peers.py --out evidence/space/peers.json --page evidence/space/README.md`.

Peers come from PyPI (`PEERS`) into
`target/space-peers`, unless `--python` names an interpreter that has them. C++ ATF is not run: it needs a
program compiled for each space. Its bar is scaled by Kernel Tuner's time in the same run (`ATF_SHARE`).
"""
import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("EVO_SHARED", ROOT / ".." / "shared")).resolve()
WORKER = SHARED / "space_bench" / "worker.py"

# Kernel Tuner 1.5.0 imports its strategies at once, so pymoo and scikit-learn come with it.
PEERS = ["kernel_tuner==1.5.0", "python-constraint2==2.9.0", "pyatf==0.0.13", "numpy==2.4.6",
         "pymoo==0.6.2", "scikit-learn==1.9.1", "scipy==1.17.1"]

# The eight spaces of the paper that Kernel Tuner's solver was published with (arXiv 2509.26253).
EIGHT = ["dedispersion", "expdist", "hotspot", "gemm", "microhh", "atf_prl_2x2", "atf_prl_4x4", "atf_prl_8x8"]
# Kernel Tuner's time over C++ ATF's where both ran in the same minutes.
ATF_SHARE = {"hotspot": 17, "microhh": 13}
HUGE = ["rise_mm_1024", "ktt_tensor_contraction"]
# Kernel Tuner holds every configuration as an object; beyond this it takes minutes and many GiB.
LISTED_MAX = 2_000_000
MEMORY_GIB = 14
NEIGHBORHOODS = {"hamming": "Hamming", "hamming_adjacent": "Hamming-adjacent",
                 "strictly_adjacent": "strictly-adjacent", "adjacent": "adjacent"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write all numbers to this file")
    parser.add_argument("--page", type=Path, help="write the conditions and the tables to this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=60, help="seconds a peer may take for one space")
    parser.add_argument("--only", default="", help="names of spaces")
    parser.add_argument("--python", help="an interpreter that has the peers")
    parser.add_argument("--no-operations", action="store_true", help="measure first loads only")
    parser.add_argument("--busy", action="store_true", help="measure although the machine does other things")
    arguments = parser.parse_args()
    if not WORKER.exists():
        say("skipped: there is no `space_bench` in the shared folder\nhint: set `EVO_SHARED`")
        return
    spaces = [json.loads(path.read_text()) | {"path": path} for path in sorted((SHARED / "spaces").glob("*.json"))]
    only = arguments.only.split(",") if arguments.only else [space["name"] for space in spaces]
    spaces = [space for space in spaces if space["name"] in only]
    python, evo = arguments.python or peers_python(), evo_program()
    if os.getloadavg()[0] > 1.5 and not arguments.busy:
        wait_for_quiet()
    result = {"conditions": conditions(arguments), "spaces": {}, "operations": {}}
    for space in spaces:
        result["spaces"][space["name"]] = side_by_side(space, python, evo, arguments)
    if not arguments.no_operations:
        result["operations"] = operations(spaces, python, evo, arguments)
    result["bars"] = bars(result)
    result["conditions"]["load_average_after"] = os.getloadavg()[0]
    print(tables(result))
    for path, text in [(arguments.out, json.dumps(result, indent=1)), (arguments.page, page(result))]:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")


def say(text):
    print(text, file=sys.stderr, flush=True)


def wait_for_quiet():
    """Short measurements fit between two slices of other work and long ones do not: ratios would flatter evo."""
    say("waiting up to ten minutes for a quiet machine (load average below 1.5)")
    for _ in range(60):
        time.sleep(10)
        if os.getloadavg()[0] < 1.5:
            return
    say("warning: the machine is not quiet; ratios of long to short measurements are too large")


# ---- the tools


def peers_python():
    """An interpreter with the peers; makes one in `target` the first time."""
    folder = ROOT / "target" / "space-peers"
    python = folder / "bin" / "python"
    if not python.exists():
        say("installing the peers into target/space-peers")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if subprocess.run([python, "-c", "import kernel_tuner, pyatf"], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


def evo_program():
    """Builds the benchmark in release and finds the program that Cargo made."""
    command = ["cargo", "bench", "--bench", "space", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    programs = [message["executable"] for message in messages
                if message.get("executable") and message["target"]["name"] == "space"]
    return programs[-1]


def conditions(arguments):
    """What a reader needs to judge the numbers; nothing that names this very machine."""
    def output(*command):
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown")
    changed = output("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "crates", "benches", "Cargo.lock")
    return {
        "utc": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "cpu": model, "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version(),
        "rustc": output("rustc", "--version"),
        "evo_commit": output("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "rounds": arguments.rounds, "timeout_s": arguments.timeout, "peers_memory_gib": MEMORY_GIB,
        "load_average_before": os.getloadavg()[0],
    }


def answer(command, timeout, environment=None):
    """The JSON line of one process, or `failed` with the reason."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GIB << 30,) * 2)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, preexec_fn=limit,
                              env=os.environ | (environment or {}))
    except subprocess.TimeoutExpired:
        return {"failed": f"over {timeout:g} s"}
    if done.returncode != 0 or not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"failed": "out of memory" if "MemoryError" in last or done.returncode < 0 else last[:200]}
    return json.loads(done.stdout)


def worker(python, mode, peer, path, timeout):
    quiet = {"PYTHONWARNINGS": "ignore", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return answer([python, str(WORKER), mode, peer, str(path)], timeout, quiet)


# ---- first loads


def side_by_side(space, python, evo, arguments):
    """First loads of one space by every tool, in interleaved rounds."""
    def run(tool):
        if tool == "evo":
            return answer([evo, "--cold", str(space["path"])], arguments.timeout)
        return worker(python, "build", tool, space["path"], arguments.timeout)

    runs, failed = {"evo": [], "kernel_tuner": [], "pyatf": []}, {}
    if (space["expected_valid"] or 0) > LISTED_MAX:
        failed["kernel_tuner"] = "not run: it lists every configuration"
    for _ in range(arguments.rounds):
        for tool in runs:
            if tool in failed:
                continue
            got = run(tool)
            if "seconds" in got:
                runs[tool].append(got)
            else:
                failed[tool] = got.get("failed") or got.get("skipped")
    row = {tool: summary(got, failed.get(tool), space) for tool, got in runs.items()}
    say(f"{space['name']}: " + ", ".join(f"{tool} {shown(part)}" for tool, part in row.items()))
    return {"cartesian": str(space["expected_cartesian"]), "expected_valid": str(space["expected_valid"])} | row


def summary(runs, failed, space):
    if not runs:
        return {"failed": failed}
    seconds = [run["seconds"] for run in runs]
    peak = [run["peak_mib"] if "peak_mib" in run else run["peak_kib"] / 1024 for run in runs]
    right = all(str(run["valid"]) == str(space["expected_valid"]) for run in runs)
    row = {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds), "runs": len(runs),
           "peak_mib": statistics.median(peak), "count_right": right, "versions": runs[0].get("versions")}
    return row | ({"later": failed} if failed else {})


# ---- operations


def operations(spaces, python, evo, arguments):
    """evo's operations on every space, Kernel Tuner's on those that it can list."""
    rows = {}
    for space in spaces:
        name = space["name"]
        command = [evo, str(SHARED / "spaces"), "--only", name, "--runs", str(arguments.rounds), "--json"]
        rows[name] = {"evo": answer(command, 300), "kernel_tuner": None}
        say(f"{name}: operations")
        if name in EIGHT:
            os.environ.setdefault("SPACE_BENCH_NEIGHBOUR_S", "2")
            rows[name]["kernel_tuner"] = worker(python, "ops", "kernel_tuner", space["path"], arguments.timeout)
        got = rows[name]["evo"]
        rows[name]["evo"] = got.get(name, got)
    return rows


# ---- bars


def bars(result):
    """Each bar: what it asks, what was seen, whether it is met (`None` where it was not measured)."""
    spaces, rows = result["spaces"], []

    def median(name, tool):
        return spaces.get(name, {}).get(tool, {}).get("median_s")

    def bar(what, limit, seen, met):
        rows.append({"what": what, "bar": limit, "seen": seen, "met": met})

    ratios = {name: median(name, "kernel_tuner") / median(name, "evo") for name in EIGHT
              if median(name, "kernel_tuner") and median(name, "evo")}
    if len(ratios) == len(EIGHT):
        mean = math.prod(ratios.values()) ** (1 / len(ratios))
        bar("ready, the eight: Kernel Tuner / evo, geometric mean", "at least 100", f"{mean:.0f}", mean >= 100)
    if ratios:
        least = min(ratios, key=ratios.get)
        bar("ready, the eight: Kernel Tuner / evo, on each", "at least 20", f"{ratios[least]:.1f} ({least})",
            ratios[least] >= 20)
    pyatf = {name: median(name, "pyatf") / median(name, "evo") for name in spaces
             if median(name, "pyatf") and median(name, "evo")}
    if pyatf:
        least = min(pyatf, key=pyatf.get)
        bar("ready, every space: pyATF / evo", "above 1", f"{pyatf[least]:.1f} ({least})", pyatf[least] > 1)
    for name, share in ATF_SHARE.items():
        if name in ratios:
            bar(f"ready, {name}: Kernel Tuner / evo against C++ ATF's", f"above {share}", f"{ratios[name]:.0f}",
                ratios[name] > share)
    for name in [name for name in HUGE if median(name, "evo")]:
        seen = spaces[name]["evo"]
        bar(f"ready, {name}", "under 100 ms and 200 MiB", f"{seen['median_s'] * 1e3:.2f} ms, {seen['peak_mib']:.1f} MiB",
            seen["median_s"] < 0.1 and seen["peak_mib"] < 200)
    rows += operation_bars({name: row["evo"] for name, row in result["operations"].items()})
    counts = [part.get("count_right") for row in spaces.values() for part in row.values() if isinstance(part, dict)]
    bar("every count as expected", "all", f"{sum(map(bool, counts))} of {sum(c is not None for c in counts)}",
        all(count is not False for count in counts))
    return rows


def operation_bars(rows):
    """The bars on operations; the slowest space speaks for all."""
    measured = {name: row["operations"] for name, row in rows.items() if "operations" in row}
    found = []

    def bar(what, limit_text, limit, unit, values):
        if values:
            worst = max(values, key=values.get)
            found.append({"what": what, "bar": limit_text, "seen": f"{values[worst]:.3g} {unit} ({worst})",
                          "met": values[worst] <= limit})

    large = {name: row["rows"] for name, row in measured.items() if int(rows[name]["valid"]) >= 100_000}
    bar("all rows listed, from 100,000 on", "at most 20 ns a row", 20, "ns",
        {name: row["ns_per_row"]["median"] for name, row in large.items()})
    bar("size of a listed row", "at most 16 bytes", 16, "bytes", {name: row["bytes_per_row"] for name, row in large.items()})
    for key, what in [("contains_ns", "membership"), ("index_of_ns", "configuration to index"),
                      ("genome_at_ns", "index to configuration")]:
        bar(what, "under 1 µs", 999.9, "ns", {name: row[key]["median"] for name, row in measured.items()})
    bar("1,000 uniform samples", "under 1 ms", 0.9999, "ms",
        {name: row["sample_1000_seconds"]["median"] * 1e3 for name, row in measured.items()})
    bar("Hamming neighbors of 1,000, the eight", "under 50 ms", 49.99, "ms",
        {name: row["neighbors"][0]["per_1000_seconds"] * 1e3 for name, row in measured.items() if name in EIGHT})
    return found


# ---- tables


def page(result):
    """A page for `evidence`: how it was measured, then the tables."""
    had = result["conditions"]
    versions = {}
    for row in result["spaces"].values():
        for tool in ("kernel_tuner", "pyatf"):
            versions |= row[tool].get("versions") or {}
    missed = [row["what"] for row in result["bars"] if not row["met"]]
    return f"""
# Search spaces beside Kernel Tuner and pyATF, {had["utc"][:10]}

`crates/evo-lab/peers/space_peers.py --out evidence/space/peers.json --page evidence/space/README.md` wrote this page and
[peers.json](peers.json) (all numbers, with least and greatest). {had["cpu"]}, {had["cpus"]} cores, {had["memory_gib"]} GiB,
{had["system"]}, {had["rustc"]}, Python {had["python"]}, {", ".join(f"{name} {version}" for name, version in versions.items())}.
evo at `{had["evo_commit"]}`, release build. Load average {had["load_average_before"]:.1f} before and
{had["load_average_after"]:.1f} after.

**{len(result["bars"]) - len(missed)} of {len(result["bars"])} bars are met**{"" if not missed else "; not: " + "; ".join(missed)}.

*Ready* is a first load in a fresh process, median of {had["rounds"]} (least to greatest), tools interleaved: from the text of the
file to a known count and a first point by its index (evo), from parameters and constraint texts that Python already holds to a
known count (the peers, pyATF without the tables of its index). A peer may take
{had["timeout_s"]:g} s and {had["peers_memory_gib"]} GiB. *Peak* is the memory of the whole process. C++ ATF was not run, because it compiles
a program for each space; where both ran elsewhere, Kernel Tuner took 17 times as long on hotspot and 13 times on microhh.
Operations are medians of 7 warm passes in one process: lookups over 100,000 random valid points, neighbors of 1,000. At most
20 million rows are listed. A box with over a million neighbors is counted and not listed. Kernel Tuner's neighbors are its uncached
scan, stopped after 2 s and scaled up.

""".lstrip() + tables(result)


def tables(result):
    """Markdown: the bars, the first loads, the operations."""
    lines = ["| what | bar | seen | verdict |", "|---|---|---|---|"]
    lines += [f"| {row['what']} | {row['bar']} | {row['seen']} | {'met' if row['met'] else '**not met**'} |"
              for row in result["bars"]]
    lines += ["", "| space | evo | peak | Kernel Tuner | pyATF | Kernel Tuner / evo | pyATF / evo |",
              "|---|---|---|---|---|---|---|"]
    for name, row in result["spaces"].items():
        evo, tuner, pyatf = (row[tool] for tool in ("evo", "kernel_tuner", "pyatf"))
        peak = f"{evo['peak_mib']:.1f} MiB" if "peak_mib" in evo else ""
        lines.append(f"| {name} | {shown(evo)} | {peak} | {shown(tuner)} | {shown(pyatf)} | {ratio(tuner, evo)} "
                     f"| {ratio(pyatf, evo)} |")
    if result["operations"]:
        lines += ["", "| space | membership | index of | point at | 1,000 samples | listed row | neighbors of 1,000: "
                  + " | ".join(NEIGHBORHOODS.values()) + " |", "|---" * (6 + len(NEIGHBORHOODS)) + "|"]
    for name, row in result["operations"].items():
        lines.append(operations_line(name, row))
    return "\n".join(lines)


def operations_line(name, row):
    evo, tuner = row["evo"].get("operations"), (row["kernel_tuner"] or {}).get("per_1000_s", {})
    if not evo:
        return f"| {name} | {row['evo'].get('failed', 'not measured')} |"
    cells = [duration(evo[key]["median"] / 1e9) for key in ("contains_ns", "index_of_ns", "genome_at_ns")]
    cells += [duration(evo["sample_1000_seconds"]["median"]),
              f"{duration(evo['rows']['ns_per_row']['median'] / 1e9)}, {evo['rows']['bytes_per_row']} B"]
    for part in evo["neighbors"]:
        theirs = tuner.get("neighbours " + NEIGHBORHOODS[part["neighborhood"]])
        own = duration(part["per_1000_seconds"]) if part["asked"] else "too many"
        cells.append(own + (f" (Kernel Tuner {duration(theirs)})" if theirs else ""))
    return f"| {name} | " + " | ".join(cells) + " |"


def shown(part):
    if "failed" in part:
        return part["failed"]
    return f"{duration(part['median_s'])} ({duration(part['min_s'])} to {duration(part['max_s'])})"


def ratio(peer, evo):
    if "median_s" not in peer or "median_s" not in evo:
        return ""
    return f"{peer['median_s'] / evo['median_s']:,.0f}×" if peer["median_s"] > 10 * evo["median_s"] \
        else f"{peer['median_s'] / evo['median_s']:.1f}×"


def duration(seconds):
    for unit, name in [(1, "s"), (1e-3, "ms"), (1e-6, "µs")]:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


if __name__ == "__main__":
    main()
