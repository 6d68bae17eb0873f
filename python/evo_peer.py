"""Answers for PyTorch (or for plain Python) when evo compares kernels: `evo bench --peer torch`.

evo starts this program and speaks JSON lines with it, framed as {"v":1,"id":N,"body":{"type":…}}:

    hello {device}                        -> ready {version, unable}
    prepare {problem, inputs: .npy files} -> prepared {implementations}
    output {implementation}               -> written
    block {implementation, mode, ms}      -> samples {samples_ns, calls}
    shutdown

Any request may be answered with unable {reason}. Outputs are written as `.npy` files and compared by evo as a
kernel's own outputs are; times are checked against evo's clock. `docs/bench.md` describes all of it.

With `--backend python` it needs the standard library alone and is slow: that shows that a comparison works at all.
"""

import argparse
import array
import ast
import ctypes
import json
import math
import os
import struct
import sys
import time

VERSION = 1
CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "|i1": "b", "<i2": "h", "<u2": "H",
         "<u4": "I", "<u8": "Q"}
MODES = ("hot", "cold", "eager")
SAMPLES_MAX = 2000
# A hot sample lasts at least this long, as evo's own do.
SAMPLE_NS = 200_000
# Calls of the graph that tells how long a call takes.
TRIAL_CALLS = 20
# Most fillings of the cache before a cold call: some 2 ms of a large GPU's time.
FLUSHES_MAX = 128
EPSILON = 1e-6


class Unable(Exception):
    """Why something cannot be done; the process goes on."""


def read_header(file):
    """Element type and shape of a `.npy` file of format version 1, which evo writes."""
    if file.read(8) != b"\x93NUMPY\x01\x00":
        raise Unable("an input is not a .npy file of version 1")
    header = ast.literal_eval(file.read(int.from_bytes(file.read(2), "little")).decode())
    return header["descr"], list(header["shape"])


def header_bytes(descr, shape):
    extents = "".join(f"{extent}, " for extent in shape)
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}".encode()
    length = -(-(10 + len(text) + 1) // 64) * 64 - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


class PythonBackend:
    """Plain loops over lists. Inputs and outputs are flat lists of floats."""

    def __init__(self, device):
        self.version = "python " + sys.version.split()[0]

    def load(self, own):
        with open(own["path"], "rb") as file:
            descr, _ = read_header(file)
            data = file.read()
        if descr == "<f2":
            return list(struct.unpack(f"<{len(data) // 2}e", data))
        return list(array.array(CODES[descr], data))

    def save(self, own, values):
        with open(own["path"], "wb") as file:
            file.write(header_bytes(own["npy"], own["shape"]))
            if own["npy"] == "<f2":
                file.write(struct.pack(f"<{len(values)}e", *values))
            else:
                file.write(array.array(CODES[own["npy"]], values).tobytes())

    def implementations(self, task, inputs):
        calls = {
            "softmax": self.softmax,
            "rmsnorm": self.rmsnorm,
            "reduction": lambda task, own: {"out": [math.fsum(own["x"])]},
            "transpose": self.transpose,
            "gemm": self.gemm,
            "attention": self.attention,
        }
        call = calls.get(task["operator"])
        if call is None:
            raise Unable(f"it knows no operator `{task['operator']}`")
        return {"loops": (lambda: call(task, inputs), None)}

    def softmax(self, task, own):
        rows, columns = task["inputs"]["x"]["shape"]
        out = []
        for row in range(rows):
            values = own["x"][row * columns:(row + 1) * columns]
            most = max(values)
            powers = [math.exp(value - most) for value in values]
            total = math.fsum(powers)
            out.extend(power / total for power in powers)
        return {"y": out}

    def rmsnorm(self, task, own):
        rows, columns = task["inputs"]["x"]["shape"]
        out = []
        for row in range(rows):
            values = own["x"][row * columns:(row + 1) * columns]
            factor = 1.0 / math.sqrt(math.fsum(value * value for value in values) / columns + EPSILON)
            out.extend(value * factor * weight for value, weight in zip(values, own["w"]))
        return {"y": out}

    def transpose(self, task, own):
        rows, columns = task["inputs"]["x"]["shape"]
        x = own["x"]
        return {"y": [x[row * columns + column] for column in range(columns) for row in range(rows)]}

    def gemm(self, task, own):
        m, k = task["inputs"]["a"]["shape"]
        n = task["inputs"]["b"]["shape"][1]
        a, b = own["a"], own["b"]
        columns = [b[column::n] for column in range(n)]
        rows = [a[row * k:(row + 1) * k] for row in range(m)]
        return {"c": [math.fsum(x * y for x, y in zip(row, column)) for row in rows for column in columns]}

    def attention(self, task, own):
        batches, heads, queries, depth = task["inputs"]["q"]["shape"]
        heads_kv, keys = task["inputs"]["k"]["shape"][1:3]
        causal = bool(task["sizes"]["CAUSAL"])
        scale, group, out = 1.0 / math.sqrt(depth), heads // heads_kv, []

        def row_of(name, start, row):
            at = (start + row) * depth
            return own[name][at:at + depth]

        for batch in range(batches):
            for head in range(heads):
                start = (batch * heads_kv + head // group) * keys
                for row in range(queries):
                    query = row_of("q", (batch * heads + head) * queries, row)
                    seen = min(max(row + 1 + keys - queries, 0), keys) if causal else keys
                    logits = [scale * math.fsum(x * y for x, y in zip(query, row_of("k", start, key)))
                              for key in range(seen)]
                    most = max(logits, default=0.0)
                    powers = [math.exp(logit - most) for logit in logits]
                    total = math.fsum(powers) or 1.0
                    values = [row_of("v", start, key) for key in range(seen)]
                    out.extend(math.fsum(p * v[column] for p, v in zip(powers, values)) / total
                               for column in range(depth))
        return {"o": out}

    def outputs(self, result):
        return result

    def flush(self):
        # Larger than the last-level cache of most processors.
        for _ in range(2):
            bytearray(64 << 20)

    def time_block(self, call, mode, ms):
        return time_on_host(call, mode, ms, self.flush, lambda: None)


def graph_calls(call_ns):
    """Calls that together last as long as a sample."""
    return max(1, min(1000, math.ceil(SAMPLE_NS / call_ns)))


def time_on_host(call, mode, ms, flush, wait):
    """Samples by the processor's clock: nanoseconds a call, and calls of each sample."""
    began = time.perf_counter_ns()
    call()
    wait()
    once = max(time.perf_counter_ns() - began, 1)
    calls = max(1, min(10_000, SAMPLE_NS // once)) if mode == "hot" else 1
    samples, until = [], time.perf_counter_ns() + ms * 1e6
    while not samples or (time.perf_counter_ns() < until and len(samples) < SAMPLES_MAX):
        if mode == "cold":
            flush()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        wait()
        samples.append(max(time.perf_counter_ns() - start, 1) / calls)
    return samples, calls


class TorchBackend:
    """PyTorch, on a GPU by CUDA events and graphs, on a processor by its clock."""

    def __init__(self, device):
        try:
            import torch
        except Exception as error:  # A broken installation fails in many ways.
            raise Unable(f"torch cannot be imported: {type(error).__name__}: {error}") from error
        self.torch = torch
        self.is_cuda = device.startswith("cuda")
        if self.is_cuda and not torch.cuda.is_available():
            raise Unable("this torch sees no CUDA device")
        self.device = torch.device(device if self.is_cuda else "cpu")
        self.version = "torch " + torch.__version__
        self.graphs = {}
        self.flush_buffer = None
        self.flushes = 1
        if self.is_cuda:
            torch.cuda.set_device(self.device)
            size = torch.cuda.get_device_properties(self.device).L2_cache_size
            self.flush_buffer = torch.empty(max(2 * size, 1 << 20) // 4, dtype=torch.float32, device=self.device)
        # evo's tolerances are those of the declared types; TF32 would compute in another one.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)

    def dtype(self, name):
        torch = self.torch
        known = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
                 "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
                 "u8": torch.uint8}
        if name not in known:
            raise Unable(f"torch has no `{name}`")
        return known[name]

    def file_dtype(self, descr):
        names = {"<f2": "f16", "<f4": "f32", "<f8": "f64", "|i1": "i8", "<i2": "i16", "<i4": "i32",
                 "<i8": "i64", "|u1": "u8"}
        if descr not in names:
            raise Unable(f"torch has no type for `{descr}`")
        return self.dtype(names[descr])

    def load(self, own):
        torch = self.torch
        with open(own["path"], "rb") as file:
            descr, shape = read_header(file)
            data = bytearray(file.read())
        if not data:
            return torch.empty(shape, dtype=self.dtype(own["dtype"]), device=self.device)
        flat = torch.frombuffer(data, dtype=self.file_dtype(descr))
        return flat.reshape(shape).to(device=self.device, dtype=self.dtype(own["dtype"])).contiguous()

    def save(self, own, value):
        plain = value.to(dtype=self.file_dtype(own["npy"]), device="cpu").reshape(own["shape"]).contiguous()
        with open(own["path"], "wb") as file:
            file.write(header_bytes(own["npy"], own["shape"]))
            # Without NumPy, which a torch may lack.
            file.write(ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()))

    def implementations(self, task, inputs):
        self.graphs = {}
        torch, functional = self.torch, self.torch.nn.functional
        operator = task["operator"]
        if operator == "attention":
            return self.attention(task, inputs)
        if operator == "gemm":
            a, b = inputs["a"], inputs["b"]
            return {"matmul": (lambda: {"c": torch.matmul(a, b)}, None)}
        if operator == "softmax":
            x = inputs["x"]
            return {"softmax": (lambda: {"y": torch.softmax(x, dim=-1)}, None)}
        if operator == "rmsnorm":
            x, w = inputs["x"], inputs["w"]
            if not hasattr(functional, "rms_norm"):
                return {"rms_norm": (None, "this torch has no rms_norm (it came with 2.4)")}
            return {"rms_norm": (lambda: {"y": functional.rms_norm(x, (x.shape[-1],), w, EPSILON)}, None)}
        if operator == "reduction":
            x = inputs["x"]
            dtype = self.dtype(task["outputs"]["out"]["dtype"])
            return {"sum": (lambda: {"out": torch.sum(x, dtype=dtype).reshape(1)}, None)}
        if operator == "transpose":
            x = inputs["x"]
            return {"transpose": (lambda: {"y": x.t().contiguous()}, None)}
        raise Unable(f"it knows no operator `{operator}`")

    def attention(self, task, inputs):
        torch, functional = self.torch, self.torch.nn.functional
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        causal = bool(task["sizes"]["CAUSAL"])
        grouped = q.shape[1] != k.shape[1]
        names = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
        short = {"FLASH_ATTENTION": "sdpa_flash", "EFFICIENT_ATTENTION": "sdpa_efficient",
                 "CUDNN_ATTENTION": "sdpa_cudnn", "MATH": "sdpa_math"}
        try:
            from torch.nn.attention import SDPBackend, sdpa_kernel
        except ImportError as error:
            raise Unable(f"this torch cannot choose a backend of attention: {error}") from error
        mask = None
        if causal and q.shape[2] != k.shape[2]:
            # torch aligns `is_causal` at the top left; evo's reference is aligned at the bottom right.
            queries, keys = q.shape[2], k.shape[2]
            mask = torch.ones(queries, keys, dtype=torch.bool, device=self.device).tril(keys - queries)
        found = {}
        for name in names:
            backend = getattr(SDPBackend, name, None)
            if backend is None:
                found[short[name]] = (None, "this torch has no such backend")
                continue

            def call(backend=backend):
                with sdpa_kernel(backend):
                    more = {"enable_gqa": True} if grouped else {}
                    own = functional.scaled_dot_product_attention(
                        q, k, v, attn_mask=mask, is_causal=causal and mask is None, **more)
                return {"o": own}

            found[short[name]] = (call, self.why_not(call))
        return found

    def why_not(self, call):
        """Why a call does not work here, in a line; nothing where it does."""
        import warnings
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                call()
                self.wait()
            return None
        except Exception as error:
            reasons = [str(one.message).split(" (Triggered")[0] for one in said]
            return " ".join([str(error).splitlines()[0], *reasons])[:300]

    def outputs(self, result):
        self.wait()
        return result

    def wait(self):
        if self.is_cuda:
            self.torch.cuda.synchronize(self.device)

    def flush(self):
        if self.flush_buffer is None:
            self.flush_buffer = self.torch.empty(16 << 20, dtype=self.torch.float32, device=self.device)
        self.flush_buffer.fill_(1.0)

    def time_block(self, call, mode, ms):
        if not self.is_cuda or mode == "eager":
            return time_on_host(call, mode, ms, self.flush, self.wait)
        return self.time_hot(call, ms) if mode == "hot" else self.time_cold(call, ms)

    def time_hot(self, call, ms):
        """Replays of a CUDA graph that holds as many calls as make a sample long enough for events."""
        torch = self.torch
        graph, calls = self.graphs.get(call, (None, 0))
        if graph is None:
            # Sized by calls in a graph, as evo's samples are. An eager call takes the host three to ten times as long as
            # a short kernel takes the GPU, and a graph of one or two calls would be timed with its own launch.
            calls = graph_calls(self.replay_ns(self.capture(call, TRIAL_CALLS)) / TRIAL_CALLS)
            graph = self.capture(call, calls)
            self.graphs[call] = (graph, calls)
        # Not counted: somebody else's data is in the caches.
        graph.replay()
        self.wait()
        samples, until = [], time.perf_counter_ns() + ms * 1e6
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while not samples or (time.perf_counter_ns() < until and len(samples) < SAMPLES_MAX):
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(max(start.elapsed_time(end) * 1e6, 1.0) / calls)
        return samples, calls

    def time_cold(self, call, ms):
        """Single calls, each after the L2 cache was filled with something else. The flush keeps the stream busy while
        event, call and event are queued, so that the launch itself is not timed: where the stream came to the first event
        too early, the sample is dropped and the cache is filled more often."""
        torch = self.torch
        call()
        self.wait()
        samples, until = [], time.perf_counter_ns() + ms * 1e6
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while not samples or (time.perf_counter_ns() < until and len(samples) < SAMPLES_MAX):
            for _ in range(self.flushes):
                self.flush()
            start.record()
            call()
            end.record()
            late = start.query()
            end.synchronize()
            if late and self.flushes < FLUSHES_MAX:
                self.flushes *= 2
                continue
            samples.append(max(start.elapsed_time(end) * 1e6, 1.0))
        return samples, 1

    def capture(self, call, calls):
        """A CUDA graph of so many calls."""
        torch = self.torch
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        return graph

    def replay_ns(self, graph):
        """What the second replay of a graph takes."""
        torch = self.torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        self.wait()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return max(start.elapsed_time(end) * 1e6, 1.0)


class Peer:
    def __init__(self, backend):
        self.make = {"torch": TorchBackend, "python": PythonBackend}[backend]
        self.backend = None
        self.task = None
        self.calls = {}

    def hello(self, body):
        try:
            self.backend = self.make(body["device"])
        except Unable as error:
            return {"type": "ready", "version": None, "unable": str(error)}
        return {"type": "ready", "version": self.backend.version, "unable": None}

    def prepare(self, body):
        if self.backend is None:
            raise Unable("it can do nothing here")
        self.calls = {}
        inputs = {name: self.backend.load(own) for name, own in body["inputs"].items()}
        self.task, found = body, self.backend.implementations(body, inputs)
        self.calls = {name: call for name, (call, why) in found.items() if why is None}
        version = self.backend.version
        listed = [{"name": name, "version": version, "unable": why} for name, (_, why) in found.items()]
        return {"type": "prepared", "implementations": listed}

    def call(self, body):
        if body["implementation"] not in self.calls:
            raise Unable(f"`{body['implementation']}` is not prepared")
        return self.calls[body["implementation"]]

    def output(self, body):
        result = self.backend.outputs(self.call(body)())
        for name, own in self.task["outputs"].items():
            if name not in result:
                raise Unable(f"it has no output `{name}`")
            os.makedirs(os.path.dirname(own["path"]), exist_ok=True)
            self.backend.save(own, result[name])
        return {"type": "written"}

    def block(self, body):
        if body["mode"] not in MODES:
            raise Unable(f"it knows no mode `{body['mode']}`")
        samples, calls = self.backend.time_block(self.call(body), body["mode"], body["ms"])
        return {"type": "samples", "samples_ns": samples, "calls": calls}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["torch", "python"], default="torch")
    peer = Peer(parser.parse_args().backend)
    # Whatever a library prints belongs on stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        body = request["body"]
        if body["type"] == "shutdown":
            return
        serve = {"hello": peer.hello, "prepare": peer.prepare, "output": peer.output, "block": peer.block}
        try:
            if body["type"] not in serve:
                raise Unable(f"it knows no request `{body['type']}`")
            answer = serve[body["type"]](body)
        except Unable as error:
            answer = {"type": "unable", "reason": str(error)}
        except Exception as error:
            answer = {"type": "unable", "reason": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps({"v": VERSION, "id": request["id"], "body": answer}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
