"""One search of either tool as a process with every cache empty, and what was seen of it as one row.

A row of kind `run`: kernel, tool, strategy, seed, budget, `wall_s` of the whole command, and all times in seconds
since the command began: `search_s` (the search starts), `first_s` and `last_s` (first and last verdict). `curve` has
one entry per evaluation: [seconds, key of the configuration, nanoseconds or null, word]. A run that failed has
`error` and whatever was seen of it until then.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Verdicts of evo that cost no evaluation of the budget.
NOT_EVALUATED = ("passed_over",)


def environment(folder, site=None):
    """The environment of a run: homes and caches of its own."""
    env = dict(os.environ, HOME=str(folder / "home"), EVO_CACHE_DIR=str(folder / "evo-cache"))
    env.update(CUPY_CACHE_DIR=str(folder / "cupy-cache"), CUDA_CACHE_PATH=str(folder / "cuda-cache"))
    env.pop("XDG_CACHE_HOME", None)
    env["PYTHONPATH"] = os.pathsep.join(p for p in (site, str(HERE), os.environ.get("PYTHONPATH")) if p)
    (folder / "home").mkdir(parents=True, exist_ok=True)
    return env


def evo_run(settings, space, inputs, folder, program, device, timeout, extra=()):
    """Runs `evo sweep` and returns its row."""
    where = evo_space(settings, space, inputs, folder, device)
    command = [
        program, "sweep", str(where), "--device", device, "--strategy", settings["strategy"],
        "--budget", str(settings["budget"]), "--seed", str(settings["seed"]),
        "--no-prior", "--out", str(folder / "out"), "--json", *extra,
    ]  # fmt: skip
    log = folder / "evo.log"
    lines, wall, code, killed = watch(command, environment(folder), log, timeout)
    row = dict(settings, kind="run", tool="evo", command=command, wall_s=wall, **read_events(lines, space))
    if killed:
        row["error"] = f"stopped after {timeout:.0f} s"
    elif code != 0:
        row["error"] = f"exit code {code}: {tail(log)}"
    return row


def evo_space(settings, space, inputs, folder, device):
    """The space file of this run. evo names files beside the space file, so with `files` all of them move."""
    if settings["inputs"] == "generated":
        return space.path
    for path in [*HERE.glob("*.cu"), *inputs.glob("*.npy")]:
        target = folder / path.name
        try:
            os.link(path, target)
        except OSError:
            shutil.copy(path, target)
    where = folder / space.path.name
    where.write_text(space.with_files(device))
    return where


def watch(command, env, log, timeout):
    """Runs a command and stamps each line of its stdout as it comes.

    Returns the lines [(seconds, text)], the wall time, the exit code, and whether it was killed at `timeout`.
    """
    lines = []
    start = time.monotonic()
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env, start_new_session=True
        )

        def read():
            for line in process.stdout:
                lines.append((time.monotonic() - start, line))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        killed = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            killed = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        wall = time.monotonic() - start
        reader.join(10)
        process.stdout.close()
    return lines, wall, process.returncode, killed


def read_events(lines, space):
    """What evo's stream of events says, by the clock of the reader."""
    seen = {"search_s": None, "curve": [], "champion": None, "tool_says": {}, "words": {}}
    for at, line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        kind = event.get("event")
        if kind == "started":
            seen["search_s"] = at
        elif kind == "finished":
            evaluation = event["evaluation"]
            word = evaluation["verdict"]["kind"]
            seen["words"][word] = seen["words"].get(word, 0) + 1
            if word not in NOT_EVALUATED:
                seen["curve"].append([at, space.key(evaluation["configuration"]), evo_time(evaluation), word])
        elif kind == "result":
            seen["tool_says"] = {**(event.get("throughput") or {}), "evaluations": event.get("evaluations")}
            champion = ((event.get("section") or {}).get("champion") or {}).get("configuration")
            seen["champion"] = space.key(champion) if champion else None
    return close(seen)


def evo_time(evaluation):
    """Nanoseconds by evo's clock: the objective, or what a race or the screen measured before it gave up."""
    measured = evaluation.get("objective_ns")
    if measured is None:
        measured = ((evaluation["verdict"].get("evidence") or {})).get("measured_ns")
    return measured


def close(seen):
    """Adds what follows from the curve."""
    curve = seen["curve"] = sorted(seen["curve"], key=lambda point: point[0])
    seen["evaluations"] = len(curve)
    seen["first_s"] = curve[0][0] if curve else None
    seen["last_s"] = curve[-1][0] if curve else None
    if seen["champion"] is None:
        timed = [point for point in curve if point[2] is not None]
        seen["champion"] = min(timed, key=lambda point: point[2])[1] if timed else None
    return seen


def kernel_tuner_run(settings, space, inputs, folder, site, timeout):
    """Runs Kernel Tuner in a process of its own and returns its row."""
    file = folder / "settings.json"
    file.write_text(json.dumps({**settings, "inputs": str(inputs)}))
    command = [sys.executable, str(HERE / "kernel_tuner_run.py"), str(file)]
    log = folder / "kernel_tuner.log"
    began = time.time()
    _, wall, code, killed = watch(command, environment(folder, site), log, timeout)
    try:
        search = json.loads((folder / "search.json").read_text())
    except (OSError, ValueError):
        search = {}
    row = dict(settings, kind="run", tool="kernel_tuner", command=command, wall_s=wall)
    row["tool_says"] = {"versions": search.get("versions")}
    row.update(read_cache(folder / "cache.json", began, space))
    row["tool_says"].update(row.pop("phases"))
    row["search_s"] = search["began"] - began if search.get("began") else None
    if killed:
        row["error"] = f"stopped after {timeout:.0f} s"
    elif search.get("error") or code != 0:
        row["error"] = search.get("error") or f"exit code {code}: {tail(log)}"
    return row


def read_cache(path, began, space):
    """What Kernel Tuner's cache file says; the file of a run that crashed lacks its last brackets."""
    seen = {"search_s": None, "curve": [], "champion": None, "words": {}, "phases": {}}
    try:
        cache = read_json(path.read_text())["cache"]
    except (OSError, ValueError, KeyError):
        return close(seen)
    phases = {"compile_time": [], "verification_time": [], "benchmark_time": [], "strategy_time": [], "framework_time": []}
    for entry in cache.values():
        at = datetime.fromisoformat(entry["timestamp"]).timestamp() - began
        measured = entry.get("time")
        good = isinstance(measured, (int, float))
        word = "correct" if good else str(entry.get("__error__") or measured)
        seen["words"][word] = seen["words"].get(word, 0) + 1
        seen["curve"].append([at, space.key(entry), 1e6 * measured if good else None, word])
        for name, values in phases.items():
            if isinstance(entry.get(name), (int, float)):
                values.append(entry[name])
    seen["phases"] = {f"{name}_ms": sum(v) / len(v) for name, v in phases.items() if v}
    return close(seen)


def read_json(text):
    """JSON that may end early, after a whole entry."""
    text = text.strip().rstrip(",")
    for ending in ("", "}", "}}", "}\n}"):
        try:
            return json.loads(text + ending)
        except ValueError:
            pass
    # A line torn in the middle: without it.
    head, _, _ = text.rpartition("\n")
    if not head:
        raise ValueError("not a cache file")
    return json.loads(head.rstrip().rstrip(",") + "}}")


def tail(path, characters=600):
    """The end of a log, on one line."""
    return " / ".join(path.read_text(errors="replace")[-characters:].strip().splitlines()[-6:])
