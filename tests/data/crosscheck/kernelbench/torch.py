"""As much of PyTorch as `crosscheck.py` needs for KernelBench, in plain Python and without a GPU."""

import contextlib
import math
import random
import struct
from types import SimpleNamespace

__version__ = "2.11.0"
float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8 = (
    "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8")


class device:
    index = 0

    def __init__(self, name):
        self.name = str(name)

    def __str__(self):
        return self.name


class Tensor:
    def __init__(self, values, shape, dtype=float32, on="cuda:0"):
        self.values, self.shape, self.dtype, self.device = list(values), tuple(shape), dtype, on

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        assert math.prod(shape) == len(self.values)
        return Tensor(self.values, shape, self.dtype, self.device)

    def to(self, dtype=None, device=None):
        return Tensor(self.values, self.shape, dtype or self.dtype, device or self.device)

    def clone(self):
        return Tensor(self.values, self.shape, self.dtype, self.device)

    def contiguous(self):
        return self

    def is_floating_point(self):
        return True

    def fill_(self, value):
        self.values = [value] * len(self.values)
        return self


def empty(shape, dtype=float32, device=None):
    # A buffer to flush a cache with is not filled here.
    shape = [0] if isinstance(shape, int) else shape
    return Tensor([0.0] * math.prod(shape), shape, dtype, device)


def zeros(*shape, device=None):
    return empty(shape, device=device)


def rand(shape, device=None):
    return Tensor([random.random() for _ in range(math.prod(shape))], shape, float32, device)


def manual_seed(seed):
    random.seed(seed)


def frombuffer(data, dtype):
    assert dtype == float32
    return Tensor(struct.unpack(f"<{len(data) // 4}f", data), (len(data) // 4,))


def matmul(a, b):
    (rows, depth), columns = a.shape, b.shape[1]
    values = [sum(a.values[row * depth + k] * b.values[k * columns + column] for k in range(depth))
              for row in range(rows) for column in range(columns)]
    return Tensor(values, (rows, columns))


def set_grad_enabled(_):
    pass


class Module:
    def to(self, **_):
        return self

    def __call__(self, *inputs):
        return self.forward(*inputs)


nn = SimpleNamespace(Module=Module, functional=SimpleNamespace())
cuda = SimpleNamespace(
    is_available=lambda: True, set_device=lambda _: None, synchronize=lambda *_, **__: None,
    get_device_properties=lambda _: SimpleNamespace(L2_cache_size=1))
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()), cudnn=SimpleNamespace())
no_grad = contextlib.nullcontext
