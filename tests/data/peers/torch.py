"""A torch with a clock of its own, to see how the shipped peer times a kernel of 10 us on a GPU: an eager call takes the
host 90 us, and a replay of a graph takes 8 us of its own. The caches are filled in 25 us."""
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

KERNEL_MS, EAGER_MS, REPLAY_MS, FLUSH_MS = 0.010, 0.090, 0.008, 0.025
__version__ = "0 (fake)"
float32 = "float32"
# What the host has done until now, and when the GPU will have done what it was given.
host = gpu = 0.0
captured = None


def kernel():
    """What a peer calls."""
    if captured is None:
        work(EAGER_MS, KERNEL_MS)
    else:
        captured.calls += 1


def work(host_ms, gpu_ms):
    """Something that the host gives to the GPU."""
    global host, gpu
    host += host_ms
    gpu = max(host, gpu) + gpu_ms


def wait():
    global host
    host = max(host, gpu)


class Event:
    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = max(host, gpu)

    def query(self):
        return self.at <= host

    def synchronize(self):
        wait()

    def elapsed_time(self, later):
        return later.at - self.at


class CUDAGraph:
    def __init__(self):
        self.calls = 0

    def replay(self):
        work(0, REPLAY_MS + self.calls * KERNEL_MS)


@contextmanager
def graph(own):
    global captured
    captured = own
    yield
    captured = None


def device(name):
    return name


def empty(*shape, **more):
    return SimpleNamespace(fill_=lambda value: work(0.001, FLUSH_MS))


def set_grad_enabled(value):
    pass


stream = SimpleNamespace(wait_stream=lambda other: None)
cuda = SimpleNamespace(
    Event=Event, CUDAGraph=CUDAGraph, graph=graph, Stream=lambda device: stream,
    current_stream=lambda device: stream, stream=lambda own: nullcontext(), is_available=lambda: True,
    set_device=lambda device: None, synchronize=lambda device: wait(),
    get_device_properties=lambda device: SimpleNamespace(L2_cache_size=1 << 20))
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()), cudnn=SimpleNamespace())
