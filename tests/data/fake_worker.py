"""A device worker without a device: speaks the protocol, and misbehaves as the candidate's label says.

Usage: fake_worker.py FOLDER [canary_dies_from=N]

FOLDER/started collects the process numbers of all workers; a worker's place in it is its `turn`.
A label such as `FAULT=hang` misbehaves in every worker, `FAULT=hang ONCE` only in the first. Of the kernels `scale*`
it takes times from the parameters: 80 µs for `WORK=80`, a tenth of that with `BLOCK=32`, as
the faster source of `history.toml` has it. Their FAULT is 1 where the
answer is wrong, as with a FACTOR that is not 2, and 2 where the kernel hangs.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
options = dict(word.split("=") for word in sys.argv[2:])
with open(os.path.join(folder, "started"), "a") as file:
    file.write(f"{os.getpid()}\n")
with open(os.path.join(folder, "started")) as file:
    turn = file.read().split().index(str(os.getpid()))


# Of evo_protocol::worker::PROTOCOL_VERSION.
PROTOCOL = 5


def write(identity, body, version=PROTOCOL):
    sys.stdout.write(json.dumps({"v": version, "id": identity, "body": body}) + "\n")
    sys.stdout.flush()


def phase(identity, name, detail=""):
    write(identity, {"type": "phase", "phase": name, "detail": detail})


def info():
    limits = {
        "threads_per_block": 1024, "block": [1024, 1024, 64], "grid": [2**31 - 1, 65535, 65535],
        "shared_static_bytes": 49152, "shared_optin_bytes": 232448, "registers_per_block": 65536,
        "cluster": 1, "cooperative": True,
    }
    return {
        "kind": "host", "name": "fake", "arch": "host", "uuid": "fake", "driver": "none",
        "multiprocessors": 1, "limits": limits, "l2_bytes": 1, "memory_bytes": 2**30,
        "bandwidth": None, "flops_f32": None, "flops_f16": None,
    }


def gate_done(name):
    report = {"gate": name, "state": "pass", "cases": 1}
    return {"type": "gate_done", "report": report, "verdict": None, "sticky": False}


def words_of(label):
    return dict(word.split("=", 1) for word in label.split() if "=" in word)


def time_of(label, problem):
    words = words_of(label)
    work = words.get("WORK") or words.get("SHORT" if problem == "small" else "LONG")
    microseconds = float(work or (5 if "SLOW" in label else 1))
    return 1000 * microseconds / (10 if words.get("BLOCK") == "32" else 1)


def measured(request, label):
    nanoseconds = time_of(label, request["plan"]["name"])
    keys = ["p10_ns", "p50_ns", "p90_ns", "min_ns", "ci_low_ns", "ci_high_ns"]
    measurement = {
        "problem": request["plan"]["name"], "mode": request["mode"], "samples": 20, "batch": 1,
        "raw_ns": [] if request["policy"]["screen"] else [nanoseconds] * 20,
        "mad_ns": 0.0, "outliers": 0, "dropped": 0, "stop": "screen", **{key: nanoseconds for key in keys},
    }
    honesty = None if request["policy"]["screen"] else {"gate": "honesty", "state": "pass", "cases": 1}
    return {"type": "measured", "measurement": measurement, "honesty": honesty, "verdict": None, "sticky": False}


VERDICTS = {
    "1": {"kind": "wrong_answer", "message": "`y` is 2 times too small"},
    "sticky": {"kind": "crash_illegal_address", "message": "error 700"},
    "doubt": {"kind": "timing_escape", "cause": "forged_time", "message": "too short", "evidence": {"in_doubt": True}},
}


def misbehave(fault, identity, answer):
    """What the fault does at the tiny shapes; whether the answer has been given."""
    if fault == "silent":
        time.sleep(1000)
    elif fault in ("hang", "2"):
        phase(identity, "launched", "`tiny:S=33`")
        time.sleep(1000)
    elif fault == "grandchild":
        # It holds our stdout and stderr open beyond our own death.
        grandchild = subprocess.Popen(["sleep", "1000"])
        with open(os.path.join(folder, "grandchild"), "w") as file:
            file.write(str(grandchild.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "garbage":
        sys.stdout.write("segmentation fault? no, just words\n")
        sys.stdout.flush()
        time.sleep(1000)
    elif fault == "flood":
        chunk = "x" * 1_000_000
        for _ in range(100):
            sys.stderr.write(chunk)
        sys.stderr.flush()
    elif fault == "exit":
        os._exit(0)
    elif fault == "signal":
        phase(identity, "launched", "`tiny:S=33`")
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "twice":
        write(identity, answer)
    elif fault == "long":
        write(identity, {**answer, "padding": "x" * 300_000})
        time.sleep(1000)
    elif fault == "drip":
        while True:
            phase(identity, "preparing", "once more")
            time.sleep(0.05)
    elif fault == "wrong_id":
        write(identity + 7, answer)
        time.sleep(1000)
    elif fault == "fault":
        phase(identity, "launched", "`tiny:S=33`")
        error = {"kind": "oob_write", "cause": None, "message": "wrote 4 bytes behind `c`", "code": None,
                 "sticky": True, "evidence": {"buffer": "c"}}
        write(0, {"type": "fault", "error": error})
        os._exit(1)
    elif fault in VERDICTS:
        report = {"gate": "tiny_shapes", "state": "fail", "cases": 1}
        write(identity, {**answer, "report": report, "verdict": VERDICTS[fault], "sticky": fault != "1"})
        return True
    return False


label, labels = "", {}
for line in iter(sys.stdin.readline, ""):
    frame = json.loads(line)
    identity, request = frame["id"], frame["body"]
    kind = request["type"]
    words = words_of(label)
    fault = "1" if words.get("FACTOR", "2") != "2" else words.get("FAULT")
    fault = None if "ONCE" in label and turn > 0 else fault
    if kind == "hello":
        write(identity, {"type": "ready", "protocol": PROTOCOL, "pid": os.getpid(), "info": info(), "judge": ""})
    elif kind == "load":
        label = labels[request["slot"]] = request["candidate"]["label"]
        if "NEED" in label:
            wanted = request["candidate"]["builds"][0]["binary"]["hash"]
            write(identity, {"type": "need", "hash": wanted})
            provided = json.loads(sys.stdin.readline())["body"]
            with open(os.path.join(folder, "provided"), "w") as file:
                file.write(provided["data"])
        write(identity, {"type": "loaded", "load_ms": 1.0})
    elif kind == "gate":
        answer = gate_done(request["gate"])
        if request["gate"] == "tiny_shapes" and misbehave(fault, identity, answer):
            continue
        if request["gate"] == "full_shapes" and fault == "slow_full":
            phase(identity, "launched", "`big`")
            time.sleep(1000)
        write(identity, answer)
    elif kind == "measure":
        answer = measured(request, label)
        if fault in ("negative", "zero"):
            factor = -1.0 if fault == "negative" else 0.0
            for key in [key for key in answer["measurement"] if key.endswith("_ns") and key != "raw_ns"]:
                answer["measurement"][key] *= factor
        elif fault == "unordered":
            answer["measurement"]["p10_ns"] *= 3
        write(identity, answer)
    elif kind == "prepare":
        write(identity, {"type": "prepared"})
    elif kind == "block":
        samples = [time_of(label, request["plan"]["name"])] * 20
        write(identity, {"type": "sampled", "samples_ns": samples, "parity": None, "verdict": None, "sticky": False})
    elif kind == "run":
        launches = (request["calls"] + request["warmup"]) * len(request["plan"]["launches"])
        write(identity, {"type": "ran", "launches": launches, "buffers": []})
    elif kind == "pair":
        # Of the jobs of `worker.rs`, whatever is in the second slot is slower.
        a, b, ratio = 10.0, 11.0, 0.1
        if not label.startswith("A="):
            a, b = (time_of(labels[slot], request["plans"][slot]["name"]) for slot in (0, 1))
            ratio = math.log(b / a)
        times = {"log_ratios": [ratio] * 12, "a_ns": [a] * 12, "b_ns": [b] * 12}
        write(identity, {"type": "paired", **times, "telemetry": {}})
    elif kind == "canary":
        if turn >= int(options.get("canary_dies_from", 1_000_000)):
            os._exit(3)
        write(identity, {"type": "alive", "canary_ns": 1.0, "memory_free": None})
    elif kind == "telemetry":
        write(identity, {"type": "clocks", "telemetry": {}})
    elif kind == "shutdown":
        if "DEAF" in label:
            time.sleep(1000)
        break
    else:
        sys.exit(f"nobody plays `{kind}`")
# A worker that outlives its stdin must still be ended by its parent.
if "DEAF" in label:
    time.sleep(1000)
