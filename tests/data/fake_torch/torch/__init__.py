"""As much of PyTorch as the tests of `evo import` need, in plain Python: tensors are lists of numbers.

It stands in for the package where tests look at what evo does with a task. What PyTorch itself does is tested with PyTorch,
where it is installed.
"""

import array
import contextlib
import struct

__version__ = "0.0 (a stand-in)"


class dtype:
    def __init__(self, name, code):
        self.name, self.code = name, code

    def __repr__(self):
        return f"torch.{self.name}"


float16 = dtype("float16", "e")
float32 = dtype("float32", "f")
float64 = dtype("float64", "d")
bfloat16 = dtype("bfloat16", "f")
int8 = dtype("int8", "b")
int16 = dtype("int16", "h")
int32 = dtype("int32", "i")
int64 = dtype("int64", "q")
uint8 = dtype("uint8", "B")
bool = dtype("bool", "B")


# Above these, half of the last unit further, a number becomes infinite.
LARGEST = {"e": 65520.0, "f": 3.4028235677973366e38}


def rounded(value, code):
    """A number as its type keeps it."""
    if abs(value) >= LARGEST.get(code, float("inf")):
        return float("inf") if value > 0 else float("-inf")
    return struct.unpack(code, struct.pack(code, value))[0]


def count(shape):
    total = 1
    for extent in shape:
        total *= extent
    return total


class Tensor:
    device = "cpu"

    def __init__(self, shape, values, dtype):
        self.shape, self.values, self.dtype = tuple(shape), list(values), dtype
        if count(self.shape) != len(self.values):
            raise RuntimeError(f"{len(self.values)} values do not fill {self.shape}")

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return Tensor(shape, self.values, self.dtype)

    def to(self, other):
        if not isinstance(other, dtype):
            return self
        if "float" in other.name:
            return Tensor(self.shape, [rounded(value, other.code) for value in self.values], other)
        return Tensor(self.shape, [int(value) for value in self.values], other)

    def detach(self):
        return self

    contiguous = detach

    def numel(self):
        return len(self.values)

    def element_size(self):
        return struct.calcsize(self.dtype.code)

    def data_ptr(self):
        # Kept, so that the address stays valid.
        self.kept = array.array("B", struct.pack(f"{len(self.values)}{self.dtype.code}", *self.values))
        return self.kept.buffer_info()[0]

    def is_floating_point(self):
        return "float" in self.dtype.name

    def copy_(self, other):
        if self.shape != other.shape:
            raise RuntimeError("the shapes differ")
        self.values = list(other.values)
        return self

    def paired(self, other, compute):
        """Elementwise, with a number or with a tensor that repeats along the first axes."""
        if not isinstance(other, Tensor):
            return Tensor(self.shape, [compute(value, other) for value in self.values], self.dtype)
        if self.shape[len(self.shape) - len(other.shape) :] != other.shape:
            raise RuntimeError("the shapes do not match")
        own = len(other.values)
        values = [compute(value, other.values[at % own]) for at, value in enumerate(self.values)]
        return Tensor(self.shape, values, self.dtype)

    def __add__(self, other):
        return self.paired(other, lambda one, two: one + two)

    def __mul__(self, other):
        return self.paired(other, lambda one, two: one * two)

    @property
    def T(self):
        rows, columns = self.shape
        values = [self.values[row * columns + column] for column in range(columns) for row in range(rows)]
        return Tensor((columns, rows), values, self.dtype)

    def __matmul__(self, other):
        (rows, inner), (same, columns) = self.shape, other.shape
        if inner != same:
            raise RuntimeError("the inner extents differ")
        across = other.T.values
        values = []
        for row in range(rows):
            own = self.values[row * inner : (row + 1) * inner]
            for column in range(columns):
                values.append(sum(one * two for one, two in zip(own, across[column * inner : (column + 1) * inner])))
        return Tensor((rows, columns), values, self.dtype)

    def sum(self, dim):
        rows, columns = self.shape
        if dim not in (1, -1):
            raise RuntimeError("only rows are added up")
        values = [sum(self.values[row * columns : (row + 1) * columns]) for row in range(rows)]
        return Tensor((rows,), values, self.dtype)


def frombuffer(data, dtype):
    values = struct.unpack(f"<{len(data) // struct.calcsize(dtype.code)}{dtype.code}", data)
    return Tensor((len(values),), values, dtype)


def zeros(shape, dtype=float32, device=None):
    return Tensor(shape, [0] * count(shape), dtype)


def rand(*shape):
    return Tensor(shape, [0.5] * count(shape), float32)


def relu(tensor):
    return Tensor(tensor.shape, [max(value, 0) if value == value else value for value in tensor.values], tensor.dtype)


def manual_seed(seed):
    pass


def set_default_dtype(dtype):
    pass


@contextlib.contextmanager
def no_grad():
    yield


def device(name):
    raise RuntimeError(f"there is no device `{name}` here")


from . import nn  # noqa: E402
