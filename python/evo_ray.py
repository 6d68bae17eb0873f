#!/usr/bin/env python3
"""One lane of `evo sweep --workers ray:N`: an actor of a Ray cluster that runs `evo worker` on a GPU of its own.

evo starts N of these and speaks its worker protocol with each on stdin and stdout. This file passes lines on and
understands none of them. The actor has one GPU (`num_gpus=1`), is never restarted by Ray and none of its calls is
repeated: what has to be done again is evo's to decide. When the actor, its node or the cluster is gone, this process
ends, which evo takes for the loss of the lane; evo then starts another one.

    python3 evo_ray.py [--address auto] [--accelerator H200] [--gpus 1] [--evo evo]

Needs the package `ray` here and on the nodes, and the program of `--evo` on the nodes.
"""

import argparse
import itertools
import os
import queue
import subprocess
import sys
import threading

# How long the actor waits for a line before it answers with none, seconds: a call that never ends could not be told
# from one whose node is gone.
WAIT = 1.0


class Turns:
    """Lets numbered calls in one after the other: an actor with threads keeps no order by itself."""

    def __init__(self):
        self.next = 0
        self.changed = threading.Condition()

    def __call__(self, number, action):
        with self.changed:
            self.changed.wait_for(lambda: self.next == number)
        try:
            return action()
        finally:
            with self.changed:
                self.next += 1
                self.changed.notify_all()


class WorkerProcess:
    """The actor: `evo worker` with pipes. Ray sets CUDA_VISIBLE_DEVICES before it starts."""

    def __init__(self, command):
        self.lines = queue.Queue()
        self.sending, self.receiving = Turns(), Turns()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in iter(self.process.stdout.readline, b""):
            self.lines.put(line)
        self.lines.put(None)

    def send(self, number, line):
        """Hands the worker one line, or the end of its input."""
        self.sending(number, lambda: self._send(line))

    def _send(self, line):
        try:
            if line is None:
                self.process.stdin.close()
            else:
                self.process.stdin.write(line)
        except (OSError, ValueError):
            # Its end shows on its stdout.
            pass

    def receive(self, number):
        """What the worker has said: a list of lines, the last of which is None at its end. Empty after a while."""
        return self.receiving(number, self._receive)

    def _receive(self):
        lines = []
        try:
            lines.append(self.lines.get(timeout=WAIT))
            while lines[-1] is not None:
                lines.append(self.lines.get_nowait())
        except queue.Empty:
            pass
        return lines

    def end(self):
        """Ends the worker with everything that it started."""
        try:
            os.killpg(self.process.pid, 9)
        except OSError:
            pass
        self.process.wait()


def start(ray, options):
    """The actor of this lane."""
    ray.init(address=options.address, log_to_driver=False, logging_level="error")
    wanted = {"num_gpus": options.gpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 4}
    if options.accelerator:
        wanted["accelerator_type"] = options.accelerator
    actor = ray.remote(WorkerProcess).options(**wanted)
    return actor.remote([options.evo, "worker"])


def pass_on(ray, actor, source, sink):
    """Passes lines both ways until one side ends; the exit code."""

    def requests():
        numbers = itertools.count()
        for line in iter(source.readline, b""):
            actor.send.remote(next(numbers), line)
        actor.send.remote(next(numbers), None)

    threading.Thread(target=requests, daemon=True).start()
    # One call is queued ahead, so that the cluster's latency does not show between two lines.
    ahead = [actor.receive.remote(0), actor.receive.remote(1)]
    for number in itertools.count(2):
        lines = ray.get(ahead.pop(0))
        ahead.append(actor.receive.remote(number))
        for line in lines:
            if line is None:
                return 0
            sink.write(line)
        sink.flush()


def main(arguments=None):
    parser = argparse.ArgumentParser(description="one lane of `evo sweep --workers ray:N`")
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "auto"), help="the cluster")
    parser.add_argument("--accelerator", help="a type of Ray's, such as H200")
    parser.add_argument("--gpus", type=float, default=1, help="GPUs of the actor; 0 for the host device")
    parser.add_argument("--evo", default="evo", help="the program on the nodes")
    options = parser.parse_args(arguments)
    try:
        import ray
    except ImportError:
        sys.exit("the Python package `ray` is missing: pip install ray")
    actor = None
    try:
        actor = start(ray, options)
        return pass_on(ray, actor, sys.stdin.buffer, sys.stdout.buffer)
    except Exception as error:  # Ray has many, and each of them is the end of this lane.
        print(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)
        return 1
    finally:
        if actor is not None:
            try:
                ray.get(actor.end.remote(), timeout=5)
                ray.kill(actor)
            except Exception:
                pass


if __name__ == "__main__":
    sys.exit(main())
