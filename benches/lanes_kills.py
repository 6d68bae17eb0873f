#!/usr/bin/env python3
"""Kills what takes part in sweeps on several lanes, at seeded moments, and looks at what is left.

    python3 benches/lanes_kills.py [--evo PATH] [--kills 100] [--seed 1] [--out FILE]

Each study is a small space on two to four host lanes behind commands, where a shell stands for the launcher. One to
three times a SIGKILL hits a worker, a launcher or evo itself; a study whose evo died, or that lost all its lanes, goes
on with `--resume` and another number of lanes until it is complete. At its end every point must have exactly one
evaluation with the same answer as in an undisturbed study, and no process of it may be left.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "lanes")


def processes(mark):
    """Numbers, parents and command lines of the processes whose command line has a mark."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read().decode(errors="replace")
        except OSError:
            continue
        if f"EVO_KILLS={mark}\0" in environment and words[0]:
            found.append((int(name), words))
    return found


def victim(kind, mark, chance):
    """A process of this kind, if there is one."""
    def is_kind(words):
        launcher = words[0].endswith("sh") and "launch.sh" in words[1:2][0] if len(words) > 1 else False
        if kind == "launcher":
            return launcher
        if kind == "worker":
            return not launcher and len(words) > 1 and words[1] == "worker" and "--executor" not in words and "--compile" not in words
        return len(words) > 1 and words[1] == "sweep"

    some = [number for number, words in processes(mark) if is_kind(words)]
    return chance.choice(some) if some else None


def answers(folder):
    """Configuration to whether its answer is wrong, and how many evaluations stand twice."""
    seen, twice = {}, 0
    with open(os.path.join(folder, "out", "lanes", "journal.jsonl")) as file:
        for line in file:
            try:
                record = json.loads(line)["record"]
            except ValueError:
                continue
            if record["kind"] == "evaluation":
                key = json.dumps(record["configuration"], sort_keys=True)
                twice += key in seen
                seen[key] = record["verdict"]["kind"]
    return seen, twice


def study(options, number, kills, chance):
    """One study from its beginning to its end; what was wrong with it."""
    folder = tempfile.mkdtemp(prefix="evo-kills-")
    mark = os.path.basename(folder)
    for name in os.listdir(SOURCES):
        shutil.copy(os.path.join(SOURCES, name), folder)
    with open(os.path.join(folder, "launch.sh"), "w") as file:
        file.write(f'"{options.evo}" worker\n')
    environment = {**os.environ, "EVO_KILLS": mark, "EVO_CACHE_DIR": options.cache}
    done, hit, runs = False, [], 0
    for runs in range(1, 12):
        lanes = chance.randint(2, 4)
        command = [options.evo, "sweep", "scale.toml", "--study", "lanes", "--device", "host", "--seed", str(number)]
        command += ["--workers", "cmd:sh launch.sh", "--lanes", str(lanes), "--jobs", "2", "--finalists", "0"]
        command += ["--no-prior", "--out", "out", "--resume=or-begin"]
        log = open(os.path.join(folder, f"log-{runs}"), "w")
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        while running.poll() is None and kills:
            time.sleep(chance.uniform(0.2, 2.5))
            kind = chance.choice(["worker", "worker", "launcher", "evo"])
            process = victim(kind, mark, chance)
            if process and running.poll() is None:
                try:
                    os.kill(process, signal.SIGKILL)
                except OSError:
                    continue
                hit.append(kind)
                kills -= 1
        code = running.wait()
        if code == 0:
            done = True
            break
    wrong = []
    until = time.monotonic() + 15
    while processes(mark) and time.monotonic() < until:
        time.sleep(0.1)
    if processes(mark):
        wrong.append(f"left: {processes(mark)}")
    seen, twice = answers(folder)
    if not done:
        wrong.append("it never came to its end")
    if twice:
        wrong.append(f"{twice} evaluations stand twice")
    for key, kind in seen.items():
        expected = ["wrong_answer"] if '"FACTOR": 3' in key else ["pass", "too_slow"]
        if kind not in expected:
            wrong.append(f"{key}: {kind}")
    if len(seen) != 10:
        wrong.append(f"{len(seen)} of 10 points")
    if not wrong:
        shutil.rmtree(folder)
    return {"study": number, "runs": runs, "kills": hit, "wrong": wrong, "folder": folder if wrong else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evo", default="target/release/evo")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.evo = os.path.abspath(options.evo)
    chance = random.Random(options.seed)
    studies, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as options.cache:
        while sum(len(own["kills"]) for own in studies) < options.kills:
            studies.append(study(options, len(studies), chance.randint(1, 3), chance))
            if studies[-1]["wrong"]:
                print(json.dumps(studies[-1]))
    kinds = [kind for own in studies for kind in own["kills"]]
    data = {
        "studies": len(studies),
        "runs": sum(own["runs"] for own in studies),
        "kills": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "wrong": [own for own in studies if own["wrong"]],
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(data))
    if options.out:
        with open(options.out, "w") as file:
            json.dump(data, file, indent=1)
    sys.exit(1 if data["wrong"] else 0)


if __name__ == "__main__":
    main()
