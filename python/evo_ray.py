#!/usr/bin/env python3
"""One lane of `evo sweep --workers ray:N`: an actor of a Ray cluster that runs `evo worker` on a GPU of its own.

evo starts N of these and speaks its worker protocol with each on stdin and stdout. This file passes bytes on and
understands none of them. The actor has one GPU (`num_gpus=1`), is never restarted by Ray and none of its calls is
repeated: what has to be done again is evo's to decide. When the actor, its node or the cluster is gone, this process
ends, which evo takes for the loss of the lane; evo then starts another one.

Ray finds the node, and says when the actor is gone. The bytes go through a connection of their own, of which the worker
has the other end as its stdin and stdout: a call of Ray's takes about a millisecond, and a question to a worker would
take two. Whoever connects has to name a secret that the actor was told by Ray.

    python3 evo_ray.py [--address auto] [--accelerator H200] [--gpus 1] [--evo evo]

Needs the package `ray` here and on the nodes, and the program of `--evo` on the nodes.
"""

import argparse
import hmac
import os
import secrets
import socket
import subprocess
import sys
import threading

# How long the actor waits for its lane to connect, and for the secret, seconds.
CONNECTED_WITHIN = 30.0
NAMED_WITHIN = 5.0

# What is sent to a node, or from there, and not received within this time has no receiver, seconds. A worker whose node
# is cut off ends by it.
RECEIVED_WITHIN = 20

# Bytes that are passed on at once.
CHUNK = 1 << 18


def settle(connection):
    """Lets both ends read and write whenever they like, and notice that the other one is gone."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, RECEIVED_WITHIN * 1000)


class WorkerProcess:
    """The actor: `evo worker` behind a connection. Ray sets CUDA_VISIBLE_DEVICES before it starts."""

    def __init__(self, command, secret):
        self.command, self.secret = command, secret.encode()
        self.process = None
        self.ended = False

    def listen(self):
        """Waits for the lane at an address of this node, which is returned."""
        import ray

        self.listener = socket.create_server((ray.util.get_node_ip_address(), 0))
        self.listener.settimeout(CONNECTED_WITHIN)
        return self.listener.getsockname()[:2]

    def run(self):
        """Runs the worker until it ends; its exit status."""
        with self.listener:
            connection = self._accept()
        with connection:
            if self.ended:
                return None
            self.process = subprocess.Popen(
                self.command, stdin=connection, stdout=connection, bufsize=0, start_new_session=True
            )
        return self.process.wait()

    def _accept(self):
        while True:
            connection, _ = self.listener.accept()
            try:
                connection.settimeout(NAMED_WITHIN)
                said = b""
                while len(said) < len(self.secret) and (more := connection.recv(len(self.secret) - len(said))):
                    said += more
            except OSError:
                said = b""
            if hmac.compare_digest(said, self.secret):
                settle(connection)
                return connection
            connection.close()

    def end(self):
        """Ends the worker with everything that it started."""
        self.ended = True
        if self.process is not None:
            try:
                os.killpg(self.process.pid, 9)
            except OSError:
                pass
            self.process.wait()


def start(ray, options):
    """The actor of this lane and the secret that it was told."""
    ray.init(address=options.address, log_to_driver=False, logging_level="error")
    wanted = {"num_gpus": options.gpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 4}
    if options.accelerator:
        wanted["accelerator_type"] = options.accelerator
    secret = secrets.token_hex(32)
    actor = ray.remote(WorkerProcess).options(**wanted)
    return actor.remote([options.evo, "worker"], secret), secret


def pass_on(ray, actor, secret, source, sink):
    """Passes bytes both ways until the worker or the actor ends; the exit code."""
    host = ray.get(actor.listen.remote())
    running = actor.run.remote()
    connection = socket.create_connection(tuple(host), CONNECTED_WITHIN)
    settle(connection)
    connection.sendall(secret.encode())

    def requests():
        try:
            while chunk := os.read(source.fileno(), CHUNK):
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            # The worker's end shows below.
            pass

    def answers():
        try:
            while chunk := connection.recv(CHUNK):
                sink.write(chunk)
                sink.flush()
        except OSError:
            pass

    threading.Thread(target=requests, daemon=True).start()
    answering = threading.Thread(target=answers, daemon=True)
    answering.start()
    # Raises where the actor or its node is gone; the worker is then cut off with this process.
    ray.get(running)
    answering.join(timeout=NAMED_WITHIN)
    return 0


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
    # Ray tells its drivers of lost nodes on stdout, where evo expects its worker.
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    actor = None
    try:
        actor, secret = start(ray, options)
        return pass_on(ray, actor, secret, sys.stdin.buffer, sink)
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
