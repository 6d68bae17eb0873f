#!/usr/bin/env python3
"""Searches the same kernels with evo and with Kernel Tuner, and writes down when each found what.

Every search is a process that starts with empty caches. Rows are appended to a file of JSON lines, so that several
calls add up; `--table FILE` prints the report of such a file. benches/throughput_peers/README.md has the details.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "throughput_peers"))
import report  # noqa: E402
import runs  # noqa: E402

KERNEL_TUNER_STRATEGIES = "genetic_algorithm,hybrid_vndx,random_sample"


def main(argv=None):
    options = arguments(argv)
    if options.table:
        print(report.table(read_rows(options.table)))
        return 0
    import spaces  # needs NumPy, which the table does not

    started = time.monotonic()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "rows.jsonl"
    work = Path(tempfile.mkdtemp(prefix="throughput-peers-", dir=options.work))
    try:
        append(file, {"kind": "conditions", "values": conditions(options)})
        left = lambda: options.wall_limit - (time.monotonic() - started)  # noqa: E731
        kind = "host" if options.device == "host" else "cuda"
        prepared = {}
        for kernel in options.kernels:
            space = spaces.Space(kernel, kind)
            inputs = work / f"inputs-{kernel}"
            inputs.mkdir()
            space.write_inputs(inputs)
            prepared[kernel] = (space, inputs)
        for number, settings in enumerate(plan(options)):
            one(settings, prepared[settings["kernel"]], work / f"run-{number}", options, left(), file)
        if not options.no_retime and kind == "cuda":
            for kernel in options.kernels:
                retime(kernel, prepared[kernel][1], work, options, file)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    rows = read_rows(file)
    (out / "results.json").write_text(json.dumps({"rows": rows}) + "\n")
    text = report.table(rows)
    (out / "table.md").write_text(text + "\n")
    print(text)
    return 0


def plan(options):
    """The searches in turns, so that a run cut short has some of everything and drift meets both tools alike."""
    tools = []
    if not options.only_kernel_tuner:
        tools += [("evo", strategy) for strategy in options.evo_strategies]
    if not options.only_evo:
        tools += [("kernel_tuner", strategy) for strategy in options.kernel_tuner_strategies]
    for budget, seed, kernel, (tool, strategy) in itertools.product(options.budgets, options.seeds, options.kernels, tools):
        yield {
            "kernel": kernel, "tool": tool, "strategy": strategy, "seed": seed, "budget": budget, "inputs": options.inputs,
        }  # fmt: skip


def one(settings, prepared, folder, options, left_s, file):
    """Makes one search, unless the time is up, and appends its row."""
    space, inputs = prepared
    told = report.label(settings)
    if left_s < options.run_least:
        append(file, {**settings, "kind": "skipped", "error": f"{max(left_s, 0):.0f} s of --wall-limit were left"})
        print(f"skipped: {told}", file=sys.stderr)
        return
    folder.mkdir()
    timeout = min(options.run_timeout, left_s)
    try:
        if settings["tool"] == "evo":
            row = runs.evo_run(settings, space, inputs, folder, str(Path(options.evo).resolve()), options.device, timeout, options.evo_options)
        else:
            row = runs.kernel_tuner_run(settings, space, inputs, folder, options.site, timeout)
    except OSError as error:
        row = {**settings, "kind": "run", "error": str(error), "curve": [], "evaluations": 0, "champion": None}
        row.update(wall_s=None, search_s=None, first_s=None, last_s=None)
    row["at"] = now()
    append(file, row)
    pace = report.per_second(row)
    print(
        f"{told}: {row['evaluations']} evaluations in {row['wall_s'] or 0:.1f} s"
        + (f", {pace:.1f}/s" if pace else "")
        + (f"; FAILED: {row['error'][:300]}" if row.get("error") else ""),
        file=sys.stderr,
        flush=True,
    )
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)


def retime(kernel, inputs, work, options, file):
    """Times the best of all rows so far side by side, by one neutral timer, and appends the times."""
    rows = [row for row in read_rows(file) if row.get("kernel") == kernel]
    keys = report.contenders(rows, limit=options.retime_limit)
    row = {"kind": "retime", "kernel": kernel, "at": now(), "asked": len(keys)}
    folder = work / f"retime-{kernel}"
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"kernel": kernel, "inputs": str(inputs), "keys": keys}))
    command = [sys.executable, str(runs.HERE / "retime.py"), str(settings)]
    log = folder / "retime.log"
    lines, _, code, killed = runs.watch(command, runs.environment(folder, options.site), log, 180)
    try:
        row.update(json.loads(lines[-1][1]) if keys else {"error": "no run left a time"})
    except (IndexError, ValueError):
        row["error"] = "stopped after 180 s" if killed else f"exit code {code}: {runs.tail(log)}"
    append(file, row)
    print(f"retimed {kernel}: {len(row.get('times_ns', {}))} of {len(keys)}", file=sys.stderr, flush=True)


def conditions(options):
    """Where and with what: printed above every table."""
    query = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"
    found = {
        "at": now(),
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "GPU (name, driver, clocks SM and memory, SM clock at most, power, temperature)": said(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        ),
        "processor": f"{os.cpu_count()} cores, {platform.machine()}, {platform.platform()}",
        "evo": said([options.evo, "--version"]),
        "Python": platform.python_version(),
    }
    script = "from kernel_tuner_run import version as v; print(*(f'{p} {v(p)}' for p in ('kernel_tuner','cupy','numpy','nvidia-cuda-nvrtc')), sep=', ')"
    env = runs.environment(Path(tempfile.gettempdir()) / f"throughput-peers-{os.getpid()}", options.site)
    found["packages"] = said([sys.executable, "-c", script], env)
    return found


def said(command, env=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    return (done.stdout.strip() or done.stderr.strip() or f"exit code {done.returncode}")[:300]


def now():
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def append(file, row):
    with open(file, "a") as rows:
        rows.write(json.dumps(row) + "\n")


def read_rows(file):
    """The rows of a file; a line torn by a crash is left out."""
    rows = []
    for line in Path(file).read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            print(f"warning: {file} has a line that is not JSON", file=sys.stderr)
    return rows


def arguments(argv):
    def words(text):
        return [word for word in text.split(",") if word]

    def numbers(text):
        return [int(word) for word in words(text)]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=words, default=["gemm", "convolution", "scale_add"])
    parser.add_argument("--budgets", type=numbers, help="evaluations a search [100,200,400]")
    parser.add_argument("--seeds", type=numbers, help="[1,2,3,4,5]")
    parser.add_argument("--quick", action="store_true", help="budget 200, seeds 1 and 2, unless named")
    parser.add_argument("--only-evo", action="store_true")
    parser.add_argument("--only-kernel-tuner", action="store_true")
    parser.add_argument("--evo", default="target/release/evo", help="the program")
    parser.add_argument("--evo-strategies", type=words, default=["evolve"])
    parser.add_argument("--evo-options", type=str.split, default=[], help="more options of `evo sweep`, in one word")
    parser.add_argument("--kernel-tuner-strategies", type=words, default=words(KERNEL_TUNER_STRATEGIES))
    parser.add_argument("--device", default="cuda", help="`cuda`, or `host` for evo alone at small sizes")
    parser.add_argument("--inputs", choices=["files", "generated"], default="files",
                        help="evo reads Kernel Tuner's inputs, or draws its own for all its gates")  # fmt: skip
    parser.add_argument("--site", help="folder that Kernel Tuner was installed to with `pip install --target`")
    parser.add_argument("--wall-limit", type=float, default=1e9, help="seconds for all searches")
    parser.add_argument("--run-timeout", type=float, default=300, help="seconds for one search")
    parser.add_argument("--run-least", type=float, default=20, help="seconds that must be left to start another")
    parser.add_argument("--retime-limit", type=int, default=60, help="configurations a kernel for the neutral timer")
    parser.add_argument("--no-retime", action="store_true")
    parser.add_argument("--out", default="target/throughput_peers", help="folder; rows.jsonl is appended to")
    parser.add_argument("--work", help="folder for temporary files")
    parser.add_argument("--keep", action="store_true", help="keep the temporary files")
    parser.add_argument("--table", metavar="ROWS.jsonl", help="only print the report of these rows")
    options = parser.parse_args(argv)
    options.budgets = options.budgets or ([200] if options.quick else [100, 200, 400])
    options.seeds = options.seeds or ([1, 2] if options.quick else [1, 2, 3, 4, 5])
    if options.device == "host":
        options.only_evo = True
    if options.only_evo and options.only_kernel_tuner:
        parser.error("--only-evo and --only-kernel-tuner exclude each other; the host device has no Kernel Tuner")
    return options


if __name__ == "__main__":
    sys.exit(main())
