#!/usr/bin/env python3
"""`evo sweep --workers` on a real Ray cluster of two nodes, which are lost, leave and join while it runs.

    tests/scripts/lanes_ray_nodes.py [--evo PATH] [--case NAME ...] [--kills N [--seed S]]

The nodes are namespaces of this machine (benches/ray_nodes.py); each has one GPU in Ray's books, so that each gets one
lane, on the host device. At the end of each case every point of the space must have exactly one answer, the same one as
in an undisturbed study, and no worker may be left on any node. Needs root, `ip`, `unshare`, `nsenter`, and `ray` in the
path and for `python3` (pip install ray); says so and ends with 0 where something is missing.
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

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "benches"))
import ray_nodes  # noqa: E402
from ray_nodes import Node, is_actor, is_gcs, is_of_worker, is_raylet, is_worker  # noqa: E402

# Evaluations after which something happens.
SOME = 4
# A Ray process that lost the head gives up after so many seconds; Ray's own limit is 60.
HEADLESS_S = 10
# No worker may be left so many seconds after a sweep.
LEFT_S = 15
# A sweep that takes longer than this hangs.
SWEEP_S = 600


class Failed(Exception):
    """What a case found wrong."""


class Study:
    """One study from its beginning to its end."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name
        self.journal = os.path.join(bench.folder, name, "lanes", "journal.jsonl")
        self.began = time.monotonic()
        self.running, self.ended = None, None

    def begin(self, *more, node=None):
        environment = dict(os.environ)
        if self.name in ["joins_again", "head_lost", "head_node_lost"] or self.name.startswith("kills"):
            # It takes longer with everything to compile: a cluster takes its time, too.
            environment["EVO_CACHE_DIR"] = os.path.join(self.bench.folder, f"cache-{self.name}")
        within = self.bench.folder
        words = [self.bench.evo, "sweep", os.path.join(within, "scale.toml"), "--study", "lanes", "--device", "host"]
        words += ["--seed", "1", "--finalists", "0", "--jobs", "1", "--no-prior", "--out", os.path.join(within, self.name)]
        self.log = os.path.join(within, f"{self.name}.log")
        with open(self.log, "a") as log:
            node = node or self.bench.nodes[0]
            command = node.inside(*words, *more)
            self.running = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        return self

    def records(self, kind):
        try:
            with open(self.journal) as file:
                lines = [json.loads(line)["record"] for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [record for record in lines if record["kind"] == kind]

    def wait_for(self, count):
        """Until there are so many evaluations."""
        while len(self.records("evaluation")) < count:
            self.check_goes_on()
            time.sleep(0.05)

    def wait_for_work_on(self, lane):
        """Until a lane has a variant."""
        began = len([1 for one in self.records("started") if one.get("lane") == lane])
        while len([1 for one in self.records("started") if one.get("lane") == lane]) == began:
            self.check_goes_on()
            time.sleep(0.02)

    def check_goes_on(self):
        if self.running.poll() is not None:
            raise Failed(f"the sweep ended early with {self.running.returncode}: {self.tail()}")

    def end(self):
        """Its exit code."""
        try:
            code = self.running.wait(SWEEP_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"the sweep does not end: {self.tail()}") from None
        self.ended = time.monotonic()
        return code

    def kill(self):
        """Ends it, if it is not over."""
        for number in ray_nodes.processes(lambda words: words[:2] == [self.bench.evo, "sweep"]):
            os.kill(number, signal.SIGKILL)
        self.running.wait()

    def tail(self):
        with open(self.log) as file:
            return " | ".join(file.read().splitlines()[-6:])

    def says(self, text):
        with open(self.log) as file:
            words = " ".join(file.read().split())
        if text not in words:
            raise Failed(f"it does not say `{text}`: {self.tail()}")

    def lanes(self):
        """What the end says of each lane."""
        return self.records("end")[-1]["lanes"]

    def check(self):
        """Every point has one answer, the right one."""
        seen, wrong = {}, []
        for record in self.records("evaluation"):
            point = json.dumps(record["configuration"], sort_keys=True)
            if point in seen:
                wrong.append(f"{point} stands twice")
            seen[point] = kind = record["verdict"]["kind"]
            # Which of those that are right are `too_slow` is for the clock to say.
            if kind not in (["wrong_answer"] if '"FACTOR": 3' in point else ["pass", "too_slow"]):
                wrong.append(f"{point}: {kind}: {record['verdict']['message']}")
        if self.bench.points not in (None, len(seen)):
            wrong.append(f"{len(seen)} points in place of {self.bench.points}")
        if wrong:
            raise Failed("; ".join(wrong))
        return len(seen)


class Bench:
    """The cluster, and what sweeps on it need."""

    def __init__(self, options, folder):
        self.evo, self.folder, self.points = options.evo, folder, None
        for name in os.listdir(os.path.join(ROOT, "tests", "data", "lanes")):
            shutil.copy(os.path.join(ROOT, "tests", "data", "lanes", name), folder)
        with open(os.path.join(folder, "scale.toml")) as file:
            text = file.read()
        # Some more points, so that a sweep lasts until things have happened.
        text = text.replace("[32, 64]", str(list(range(32, 257, 32)))).replace("[1, 2, 4]", "[1, 2, 3, 4]")
        text = text.replace("<= 128", "<= 896")
        with open(os.path.join(folder, "scale.toml"), "w") as file:
            file.write(text)
        os.environ["EVO_CACHE_DIR"] = os.path.join(folder, "cache")
        os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(HEADLESS_S)
        ray_nodes.begin()
        self.nodes = []
        # One GPU each: two lanes need two nodes.
        for number in range(2):
            self.nodes.append(Node(number, gpus=1))
            self.nodes[-1].start()
        os.environ["RAY_ADDRESS"] = f"{self.nodes[0].address}:{ray_nodes.PORT}"

    def sweep(self, name, *more, node=None):
        return Study(self, name).begin("--workers", "ray:2", *more, node=node)

    def resume(self, study):
        """Completes a study that lost all its lanes."""
        code = study.begin("--workers", "host:1", "--resume").end()
        if code != 0:
            raise Failed(f"it does not go on: {code}: {study.tail()}")

    def replace(self, starts=True):
        """A new second node in place of the one that was lost."""
        self.nodes[1].lose()
        self.nodes[1] = Node(1, gpus=1)
        if starts:
            self.nodes[1].start()

    def left(self):
        """Workers that are left after a while."""
        until = time.monotonic() + LEFT_S
        while (found := ray_nodes.processes(is_of_worker(self.evo))) and time.monotonic() < until:
            time.sleep(0.1)
        return found


def expect(is_so, text):
    if not is_so:
        raise Failed(text)


def killed(which):
    """A process of each node's lane is killed: both lanes go on."""

    def case(bench, study):
        for turn, node in enumerate(bench.nodes, 1):
            study.wait_for(turn * SOME)
            # A new one may not be there yet.
            while node.kill(which(bench)) == 0:
                study.check_goes_on()
                time.sleep(0.05)
        expect(study.end() == 0, study.tail())
        lanes = study.lanes()
        expect(all("out" not in lane for lane in lanes), f"a lane is out: {lanes}")
        expect(sum(lane["restarts"] for lane in lanes) >= 1, f"no lane has a new worker: {lanes}")

    return case


def undisturbed(bench, study):
    expect(study.end() == 0, study.tail())
    bench.points = study.check()
    expect(all(lane["evaluations"] > 0 for lane in study.lanes()), f"a lane did nothing: {study.lanes()}")


def raylet_lost(bench, study):
    """Ray loses a node, none takes its place: the other lane completes the sweep, and does not wait."""
    study.wait_for(SOME)
    bench.nodes[1].kill(is_raylet)
    expect(study.end() == 0, study.tail())


def power_lost(bench, study):
    """A node is gone without a farewell."""
    study.wait_for(SOME)
    bench.nodes[1].lose()
    expect(study.end() == 0, study.tail())


def cable_pulled(bench, study):
    """A node lives on, and nobody reaches it: its worker ends by itself."""
    study.wait_for(SOME)
    bench.nodes[1].pull()
    expect(study.end() == 0, study.tail())
    until = time.monotonic() + 60
    while bench.nodes[1].processes(is_of_worker(bench.evo)):
        expect(time.monotonic() < until, "the worker of the node that is cut off is still there after a minute")
        time.sleep(0.5)


def leaves(bench, study):
    """A node leaves in order."""
    study.wait_for(SOME)
    bench.nodes[1].leave()
    expect(study.end() == 0, study.tail())


def joins_late(bench, study):
    """A sweep that waits for its second lane begins when a node joins."""
    time.sleep(12)
    study.check_goes_on()
    expect(not study.records("evaluation"), "it began with one lane")
    bench.nodes[1].start()
    expect(study.end() == 0, study.tail())
    expect(all(lane["evaluations"] > 0 for lane in study.lanes()), f"a lane did nothing: {study.lanes()}")


def joins_again(bench, study):
    """A lane whose node was lost goes on when another node joins."""
    study.wait_for(SOME)
    bench.replace()
    expect(study.end() == 0, study.tail())
    lanes = study.lanes()
    expect(all("out" not in lane for lane in lanes), f"a lane is out: {lanes}")
    expect(any(lane["restarts"] for lane in lanes), f"no lane has a new worker: {lanes}")


def head_lost(bench, study):
    """The cluster's books are gone (its GCS): lanes go on until Ray's own processes give up."""
    study.wait_for(SOME)
    expect(bench.nodes[0].kill(is_gcs) == 1, "there is no GCS")
    code = study.end()
    print(f"  exit code {code} after {len(study.records('evaluation'))} evaluations")
    if code != 0:
        expect(code == 3, study.tail())
        study.says("lanes are lost")
        bench.resume(study)


def head_node_lost(bench, study):
    """The head's whole node is gone, evo runs on the other one."""
    study.wait_for(SOME)
    bench.nodes[0].lose()
    code = study.end()
    print(f"  exit code {code} after {len(study.records('evaluation'))} evaluations")
    if code != 0:
        expect(code == 3, study.tail())
        study.says("lanes are lost")
        bench.nodes[0] = bench.nodes[1]
        bench.resume(study)


CASES = {
    "undisturbed": undisturbed,
    "actor_killed": killed(lambda bench: is_actor),
    "worker_killed": killed(lambda bench: is_worker(bench.evo)),
    "raylet_lost": raylet_lost,
    "power_lost": power_lost,
    "cable_pulled": cable_pulled,
    "leaves": leaves,
    "joins_late": joins_late,
    "joins_again": joins_again,
    "head_lost": head_lost,
    "head_node_lost": head_node_lost,
}


def run(bench, name):
    """One case; what was wrong with it."""
    case = CASES[name]
    if name in ["head_lost", "head_node_lost"]:
        # A cluster without its head is of no use to later cases.
        for node in bench.nodes:
            node.lose()
        bench.nodes = [Node(number, gpus=1) for number in range(2)]
        for node in bench.nodes:
            node.start()
    elif name == "joins_late":
        bench.nodes[1].leave()
        bench.replace(starts=False)
    study = bench.sweep(name, node=bench.nodes[1] if name == "head_node_lost" else None)
    try:
        case(bench, study)
        count = study.check()
        left = bench.left()
        expect(not left, f"workers are left: {left}")
        print(f"passed: {name}: {count} evaluations, {study.ended - study.began:.0f} s", flush=True)
        return True
    except Failed as error:
        print(f"FAILED: {name}: {error}", flush=True)
        study.kill()
        return False
    finally:
        if name in ["raylet_lost", "power_lost", "cable_pulled", "leaves"]:
            bench.replace()


def kills(bench, options):
    """Studies in which something is killed at seeded moments, until there were so many kills; what was wrong."""
    chance, done, wrong, studies = random.Random(options.seed), [], [], 0
    began = time.monotonic()
    while len(done) < options.kills:
        studies += 1
        study = bench.sweep(f"kills{studies}")
        try:
            for _ in range(chance.randint(1, 2)):
                study.wait_for(1)
                time.sleep(chance.uniform(0.2, 4))
                kind = chance.choice(["raylet", "raylet", "node", "actor", "worker"])
                node = bench.nodes[chance.randint(0, 1) if kind in ["actor", "worker"] else 1]
                if study.running.poll() is not None:
                    break
                if kill_one(bench, node, kind):
                    done.append(kind)
                if kind in ["raylet", "node"]:
                    bench.replace()
            if (code := study.end()) != 0:
                expect(code == 3, study.tail())
                bench.resume(study)
            study.check()
            left = bench.left()
            expect(not left, f"workers are left: {left}")
        except Failed as error:
            wrong.append(f"{study.name}: {error}")
            print(f"FAILED: {wrong[-1]}", flush=True)
            study.kill()
    said = {"studies": studies, "kills": {kind: done.count(kind) for kind in sorted(set(done))}, "wrong": wrong}
    print(json.dumps({**said, "seconds": round(time.monotonic() - began)}), flush=True)
    return not wrong


def kill_one(bench, node, kind):
    """Whether there was something to kill."""
    if kind == "node":
        node.lose()
        return True
    which = {"raylet": is_raylet, "actor": is_actor, "worker": is_worker(bench.evo)}[kind]
    return node.kill(which) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evo", default=os.path.join(ROOT, "target", "debug", "evo"))
    parser.add_argument("--case", action="append", choices=list(CASES), help="these only; all by default")
    parser.add_argument("--kills", type=int, help="in place of the cases so many kills at seeded moments")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with the studies")
    options = parser.parse_args()
    options.evo = os.path.realpath(options.evo)
    lacks = ray_nodes.missing() or (None if os.access(options.evo, os.X_OK) else f"there is no {options.evo}")
    if lacks:
        print(f"skipped: {lacks}")
        return 0
    ray_nodes.in_namespace()
    folder = tempfile.mkdtemp(prefix="evo-ray-nodes-")
    try:
        bench = Bench(options, folder)
        wanted = options.case or list(CASES)
        # What it counts holds for the others.
        wanted = ["undisturbed", *(name for name in wanted if name != "undisturbed")]
        if options.kills:
            wanted = ["undisturbed"]
        passed = all([run(bench, name) for name in wanted])
        return 0 if passed and (not options.kills or kills(bench, options)) else 1
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
