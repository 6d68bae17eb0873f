"""The kernels of this benchmark: their space files, as Kernel Tuner needs them, with inputs and expected answers.

The `.toml` file is the only place where parameters and constraints stand. What Kernel Tuner wants in other words
(problem size, grid divisors, tolerance) is in KERNELS; a test compares the grids of both for every valid point.
"""

import itertools
import math
import re
import tomllib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent

# problem: extents that the grid covers, x first, as names of sizes; divisors: what a block covers of them.
# atol: for Kernel Tuner's `numpy.allclose`, about ten times the largest rounding error seen. shared: bytes of dynamic
# shared memory, of sizes and parameters.
KERNELS = {
    "gemm": {"problem": ["N", "M"], "divisors": ["NWG", "MWG"], "block": ["NDIM", "MDIM"], "atol": 1e-2},
    "convolution": {"problem": ["W", "H"], "divisors": ["BX*TX", "BY*TY"], "block": ["BX", "BY"], "atol": 1e-3},
    "scale_add": {"problem": ["C", "R"], "divisors": ["BX*ITEMS*VEC", "BY*ROWS"], "block": ["BX", "BY"], "atol": 1e-5},
    "layer_norm": {"problem": ["R"], "divisors": ["1"], "block": ["THREADS"], "atol": 1e-4, "shared": "4*C*CACHED"},
}


class Space:
    """One kernel: `parameters` (name → values), `constraints`, `sizes` of the timed problem of a kind of device."""

    def __init__(self, kernel, device="cuda"):
        if kernel not in KERNELS:
            raise ValueError(f"`{kernel}` is not one of {', '.join(KERNELS)}")
        self.kernel = kernel
        self.path = HERE / f"{kernel}.toml"
        self.text = self.path.read_text()
        self.file = tomllib.loads(self.text)
        self.source = HERE / self.file["kernel"]["source"]
        self.entry = self.file["launches"][0]["entry"]
        self.parameters = {name: p["values"] for name, p in self.file["parameters"].items()}
        self.constraints = [c["require"] for c in self.file.get("constraints", [])]
        (problem,) = [p for p in self.file["problems"] if p["device"] == device]
        self.problem, self.sizes = problem["name"], problem["sizes"]
        self.peer = KERNELS[kernel]

    def valid(self):
        """Every valid configuration, as a dict."""
        tests = [compile(c, "<constraint>", "eval") for c in self.constraints]
        for values in itertools.product(*self.parameters.values()):
            point = dict(zip(self.parameters, values))
            if all(eval(test, {"__builtins__": {}}, point) for test in tests):
                yield point

    def key(self, configuration):
        """One configuration as text, the same for both tools."""
        return "|".join(str(configuration[name]) for name in self.parameters)

    def configuration(self, key):
        return dict(zip(self.parameters, (int(v) for v in key.split("|"))))

    def launch(self, configuration):
        """Grid and block of one configuration, by the table that Kernel Tuner gets."""
        grid = [
            math.ceil(self.sizes[size] / eval(divisor, {"__builtins__": {}}, dict(configuration)))
            for size, divisor in zip(self.peer["problem"], self.peer["divisors"])
        ]
        return tuple(grid), tuple(configuration[name] for name in self.peer["block"])

    def shared_bytes(self, configuration):
        return eval(self.peer.get("shared", "0"), {"__builtins__": {}}, {**self.sizes, **configuration})

    def arguments(self):
        """The entry point's arguments in order: (name, role, shape) of buffers, (name, "scalar", value) of scalars."""
        names = dict(self.sizes)
        found = []
        for argument in self.file["arguments"]:
            if "value" in argument:
                found.append((argument["name"], "scalar", eval(argument["value"], {"__builtins__": {}}, names)))
            else:
                shape = [s if isinstance(s, int) else eval(s, {"__builtins__": {}}, names) for s in argument["shape"]]
                found.append((argument["name"], argument["role"], tuple(shape)))
        return found

    def write_inputs(self, folder, seed=7):
        """Writes NAME.npy for every input and for the expected output (`expected.npy`) into `folder`."""
        generator = np.random.default_rng(seed)
        inputs = {}
        for name, role, shape in self.arguments():
            if role == "input":
                inputs[name] = generator.standard_normal(shape, dtype=np.float32)
                np.save(folder / f"{name}.npy", inputs[name])
        answer = ANSWERS[self.kernel](inputs).astype(np.float32)
        np.save(folder / "expected.npy", np.ascontiguousarray(answer))

    def with_files(self, device):
        """The space file with the inputs read from `.npy` files and only the problem of this kind of device."""
        text = re.sub(
            r'(name = "(\w+)"\n(?:(?!\[\[)[^\n]*\n)*?)fill = [^\n]*\n',
            lambda match: f'{match[1]}fill = {{ npy = "{match[2]}.npy" }}\n',
            self.text,
        )
        text = re.sub(r"^multiple_of = [^\n]*\n", "", text, flags=re.M)
        text = re.sub(r"^tiny = \[.*?^\]\n", 'tiny = "none"\n', text, flags=re.M | re.S)
        blocks = re.split(r"(?m)^(?=\[)", text)
        return "".join(b for b in blocks if not b.startswith("[[problems]]") or f'device = "{device}"' in b)


def _gemm(inputs):
    return inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)


def _convolution(inputs):
    image, weights = inputs["image"].astype(np.float64), inputs["weights"].astype(np.float64)
    shape = [i + w - 1 for i, w in zip(image.shape, weights.shape)]
    whole = np.fft.irfft2(np.fft.rfft2(image, shape) * np.fft.rfft2(weights[::-1, ::-1], shape), shape)
    rows, columns = weights.shape
    return whole[rows - 1 : image.shape[0], columns - 1 : image.shape[1]]


def _scale_add(inputs):
    scale, shift = inputs["row_scale"].astype(np.float64), inputs["column_shift"].astype(np.float64)
    return inputs["x"].astype(np.float64) * scale[:, None] + shift[None, :]


def _layer_norm(inputs):
    x = inputs["x"].astype(np.float64)
    factor = 1 / np.sqrt(x.var(axis=1, keepdims=True) + np.float64(np.float32(1e-5)))
    return (x - x.mean(axis=1, keepdims=True)) * factor * inputs["gamma"] + inputs["beta"]


ANSWERS = {"gemm": _gemm, "convolution": _convolution, "scale_add": _scale_add, "layer_norm": _layer_norm}
