"""A peer for tests: answers `y = 2 x`, and misbehaves as its first argument says."""

import array
import ast
import json
import os
import signal
import sys
import time

HOW = sys.argv[1]
STATE = sys.argv[2] if len(sys.argv) > 2 else None


def read(path):
    with open(path, "rb") as file:
        assert file.read(8) == b"\x93NUMPY\x01\x00"
        header = ast.literal_eval(file.read(int.from_bytes(file.read(2), "little")).decode())
        assert header["descr"] == "<f4"
        return array.array("f", file.read())


def write(own, values, descr=None, shape=None):
    extents = "".join(f"{extent}, " for extent in (own["shape"] if shape is None else shape))
    header = f"{{'descr': '{descr or own['npy']}', 'fortran_order': False, 'shape': ({extents}), }}\n".encode()
    with open(own["path"], "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.write(array.array("f", values).tobytes())


def say(number, body):
    sys.stdout.write(json.dumps({"v": 1, "id": number, "body": body}) + "\n")
    sys.stdout.flush()


def start_daemon():
    # In a session of its own: neither its group nor its parent tells whose it is.
    starter = os.fork()
    if starter:
        os.waitpid(starter, 0)
        return
    os.setsid()
    child = os.fork()
    if child == 0:
        for descriptor in range(3):
            os.close(descriptor)
        time.sleep(600)
    with open(STATE + ".new", "w") as file:
        file.write(str(child))
    os.rename(STATE + ".new", STATE)
    os._exit(0)


def hang(where):
    if HOW.startswith("daemon") and where == "prepare" and STATE and not os.path.exists(STATE):
        start_daemon()
    if HOW == "daemon_hangs" and where == "output":
        time.sleep(600)
    if HOW == f"hang_{where}":
        # A child of its own must be gone with it.
        if STATE:
            child = os.fork()
            if child == 0:
                time.sleep(600)
            with open(STATE, "w") as file:
                file.write(str(child))
        time.sleep(600)
    if HOW == f"die_{where}":
        print("no more memory", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    if HOW == f"exit_{where}":
        print("gave up", file=sys.stderr)
        sys.exit(7)
    if HOW == f"garbage_{where}":
        sys.stdout.write("hello, this is not JSON\n")
        sys.stdout.flush()
    if HOW == f"long_{where}":
        sys.stdout.write("x" * (10 << 20) + "\n")
        sys.stdout.flush()


def output(task, inputs):
    x, y = inputs["x"], task["outputs"]["y"]
    right = [2.0 * value for value in x]
    if HOW == "wrong":
        right[len(right) // 2] += 1.0
    if HOW == "nothing":
        return
    if HOW == "by_heart":
        # The first answer that it ever gave, whatever it is asked.
        output.kept = getattr(output, "kept", right)
        right = output.kept
    if HOW == "shape":
        return write(y, right, shape=[len(right) + 1])
    if HOW == "dtype":
        return write(y, right, descr="<f8")
    if HOW == "fifo":
        return os.mkfifo(y["path"])
    if HOW == "nan":
        right[0] = float("nan")
    write(y, right)


def block(body):
    began = time.perf_counter()
    # Busy for as long as was asked, in calls of a hundredth of it each.
    call = body["ms"] / 1e3 / 20
    samples = []
    while time.perf_counter() - began < body["ms"] / 1e3:
        start = time.perf_counter()
        while time.perf_counter() - start < call:
            pass
        samples.append((time.perf_counter() - start) * 1e9)
    if HOW == "too_long":
        return [sample * 50 for sample in samples]
    if HOW == "too_short":
        return [1.0 for _ in samples]
    if HOW == "negative":
        return [-1.0 for _ in samples]
    if HOW == "no_samples":
        return []
    return samples


def main():
    if HOW == "slow_start":
        time.sleep(1.5)
    task, inputs = None, None
    for line in sys.stdin:
        request = json.loads(line)
        number, body = request["id"], request["body"]
        kind = body["type"]
        if kind == "shutdown":
            return
        hang(kind)
        if kind == "hello":
            why = "it has no library" if HOW == "unable" else None
            say(number + (1 if HOW == "number" else 0), {"type": "ready", "version": "1.0", "unable": why})
        elif kind == "prepare":
            task = body
            inputs = {name: read(own["path"]) for name, own in body["inputs"].items()}
            if HOW == "unable_prepare":
                say(number, {"type": "unable", "reason": "not this shape"})
                continue
            listed = [{"name": "double", "version": "1.0", "unable": None}]
            if HOW == "two":
                listed.append({"name": "other", "unable": "needs a newer card"})
            if HOW == "nobody":
                listed = []
            if HOW == "twice":
                listed = listed * 2
            say(number, {"type": "prepared", "implementations": listed})
        elif kind == "output":
            output(task, inputs)
            say(number, {"type": "ready"} if HOW == "other_answer" else {"type": "written"})
        elif kind == "block":
            say(number, {"type": "samples", "samples_ns": block(body), "calls": 1})


main()
