"""A Ray cluster of several nodes on one machine, each of which can be lost like a machine of its own.

A node is a set of namespaces: its processes, its files of Ray's, its host name, and a network card that a bridge
joins to the others'. `ray stop` in a node ends that node only, a node whose first process is killed is gone without a
farewell, and a card that is taken down is a cable that is pulled.

Needs root, `unshare`, `nsenter`, `ip` and `ray` (pip install ray). `in_namespace` runs a program again where all of this
ends with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# The GCS's port, and the network of the nodes.
PORT = 6399
NETWORK = "10.98.0"

# Where Ray keeps its sockets and logs.
FILES = os.path.join(tempfile.gettempdir(), "ray")

# Set where a program already runs in namespaces of its own.
INSIDE = "EVO_IN_NAMESPACE"


def missing():
    """What this machine lacks, if anything."""
    for program in ["unshare", "nsenter", "ip", "ray"]:
        if shutil.which(program) is None:
            return f"`{program}` is missing"
    if os.getuid() != 0:
        return "it needs root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"], capture_output=True)
    return None if tried.returncode == 0 else "namespaces cannot be made here"


def in_namespace():
    """Runs this program again in namespaces of its own, unless it is there already."""
    if os.environ.get(INSIDE) == "yes":
        return
    os.environ[INSIDE] = "yes"
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.execvp("unshare", [*apart, sys.executable, "-B", *sys.argv])


def processes(is_one):
    """Numbers of the processes on all nodes whose words fit."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        if words[0] and is_one(words):
            found.append(int(name))
    return found


class Node:
    """One node. `gpus` are counted and need not exist."""

    cards = 0

    def __init__(self, number, gpus):
        self.number, self.gpus = number, gpus
        self.address = f"{NETWORK}.{number + 1}"
        # The card of a node that was lost stays for a while.
        Node.cards += 1
        self.card = f"evo{Node.cards}"
        os.makedirs(FILES, exist_ok=True)
        # The first process waits for those that lost their parent, as on any machine.
        first = f"hostname node{number}; mount -t tmpfs none {FILES}; while :; do sleep 1000 & wait $!; done"
        apart = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
        self.holder = subprocess.Popen([*apart, "bash", "-c", first])
        self.first = self._first()
        ip("link", "add", self.card, "type", "veth", "peer", "name", "card", "netns", str(self.first))
        ip("link", "set", self.card, "master", "nodes", "up")
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "card")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "set", "card", "up")

    def _first(self):
        children = f"/proc/{self.holder.pid}/task/{self.holder.pid}/children"
        for _ in range(100):
            with open(children) as file:
                if numbers := file.read().split():
                    own = int(numbers[0])
                    # `unshare` mounts before it becomes the shell.
                    with open(f"/proc/{own}/comm") as name:
                        if name.read().strip() == "bash" and os.path.ismount(f"/proc/{own}/root{FILES}"):
                            return own
            time.sleep(0.05)
        sys.exit(f"FAILED: node {self.number} does not begin")

    def inside(self, *words):
        """A command's words that run it on this node."""
        return ["nsenter", "--target", str(self.first), "--net", "--mount", "--pid", "--uts", "--", *words]

    def run(self, *words):
        done = subprocess.run(self.inside(*words), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: node {self.number}: {' '.join(words)}: {done.stdout[-800:]}{done.stderr[-800:]}")

    def start(self):
        """Ray on this node: the head of a cluster on the first one, and a member of it elsewhere."""
        role = ["--head", "--port", str(PORT), "--include-dashboard=false"] if self.number == 0 else []
        role = role or ["--address", f"{NETWORK}.1:{PORT}"]
        size = ["--num-cpus", "2", "--num-gpus", str(self.gpus), "--object-store-memory", "80000000"]
        self.run("ray", "start", *role, "--node-ip-address", self.address, *size, "--disable-usage-stats")

    def leave(self):
        """The node leaves in order."""
        self.run("ray", "stop")

    def processes(self, is_one):
        """Those of this node."""
        own = os.readlink(f"/proc/{self.first}/ns/pid")
        return [number for number in processes(is_one) if namespace(number) == own]

    def kill(self, is_one):
        """Kills the processes of this node that fit; how many there were."""
        victims = self.processes(is_one)
        for number in victims:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(victims)

    def pull(self, is_in=False):
        """Pulls the cable, or plugs it in again."""
        ip("link", "set", self.card, "up" if is_in else "down")

    def lose(self):
        """The node is gone at once, with everything on it."""
        self.holder.kill()
        self.holder.wait()
        for _ in range(100):
            if not os.path.exists(f"/proc/{self.first}"):
                return
            time.sleep(0.05)


def namespace(number):
    try:
        return os.readlink(f"/proc/{number}/ns/pid")
    except OSError:
        return None


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def begin():
    """The network that nodes join."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "nodes", "type", "bridge")
    ip("link", "set", "nodes", "up")


# Which processes are what.
def is_raylet(words):
    return words[0].endswith("/raylet")


def is_gcs(words):
    return words[0].endswith("/gcs_server")


def is_actor(words):
    return words[0].startswith("ray::WorkerProcess")


def is_worker(evo):
    return lambda words: words[0] == evo and words[1:2] == ["worker"] and len(words) == 2


def is_of_worker(evo):
    """Also what a worker starts."""
    return lambda words: words[0] == evo and words[1:2] == ["worker"]
