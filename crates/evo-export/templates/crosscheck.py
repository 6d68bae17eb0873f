"""Times and checks an exported kernel with other people's tools, for `evo crosscheck`.

    crosscheck.py nvbench|torch|kernelbench|cutlass REQUEST.json

The request lists problems with their inputs, the expected answers and the folder of the exported files. Each problem gets one
line of JSON on stdout, as any program gives it that `evo crosscheck --command` names: `docs/CROSSCHECK.md` has the fields.
`evo_peer.py` and `verify_peer.py`, which know tensors and exported files, lie beside this file.
"""

import csv
import glob
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import evo_peer
from evo_peer import TorchBackend, Unable
from verify_peer import ExportBackend

# Relative tolerance of each type; the absolute one is this share of the root mean square of the expected answers.
TOLERANCES = {"f16": 1e-2, "bf16": 2e-2, "f32": 1e-4, "f64": 1e-7}
# Seconds that one measurement of torch.utils.benchmark goes on for.
TORCH_SECONDS = 1.0
# Calls that KernelBench's evaluator checks, and calls that it times.
KERNELBENCH_CHECKS = 3
KERNELBENCH_TRIALS = 100
# Further runs of the fastest kernel of CUTLASS, from which its spread is known.
CUTLASS_RUNS = 3
# A batch of calls is timed where the device needs at least so many times as long as the host needs to launch them.
BATCH_MARGIN = 1.5
CUTLASS_TYPES = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "i8": "s8"}


class Case:
    """A problem with its memory on the device."""

    def __init__(self, request, problem, backends):
        self.problem = problem
        self.name = problem["problem"]
        folder = problem["folder"]
        if folder not in backends:
            backends[folder] = ExportBackend(request["device"], folder)
        self.backend = backend = backends[folder]
        self.torch = backend.torch
        self.task = {**problem, "operator": request["operator"], "outputs": problem["expected"]}
        self.plan = backend.once("plan", lambda: backend.module("launch_plan.py"))
        listed = backend.names()
        self.idents = listed["buffers"]
        self.sizes = {own: problem["sizes"][name] for name, own in listed["sizes"].items()}
        self.inputs = {name: backend.load(own) for name, own in problem["inputs"].items()}
        self.tensors = {own: backend.memory(self.plan, own, self.sizes, self.inputs.get(name))
                        for name, own in self.idents.items()}
        self.expected = {name: backend.load({**own, "dtype": {"<f4": "f32", "<f8": "f64"}[own["npy"]]})
                         for name, own in problem["expected"].items()}

    def line(self, **more):
        return {"problem": self.name, **more}

    def differs(self, found):
        """How outputs differ from what is expected, in a line; nothing where they do not."""
        torch = self.torch
        self.backend.wait()
        for name, expected in self.expected.items():
            tolerance = TOLERANCES.get(self.problem["expected"][name]["dtype"], 0.0)
            expected = expected.double()
            finite = expected[torch.isfinite(expected)]
            scale = finite.square().mean().sqrt().item() if finite.numel() else 0.0
            try:
                torch.testing.assert_close(found[name].double().reshape(expected.shape), expected, rtol=tolerance,
                                           atol=tolerance * scale, equal_nan=True)
            except AssertionError as error:
                lines = [text.strip() for text in str(error).splitlines() if text.strip()]
                return f"{name}: " + " ".join(lines[:2])
        return None

    def check(self, launch):
        """Whether one call gives the expected answers, and what differs."""
        if not self.expected:
            return None, "evo has no answer for each element of these outputs, so they were not checked"
        launch()
        why = self.differs({name: self.tensors[self.idents[name]] for name in self.expected})
        return why is None, why

    def host_ns(self, call):
        """What the host needs to launch one call."""
        times = []
        for _ in range(20):
            self.backend.wait()
            began = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - began)
        self.backend.wait()
        return statistics.median(times)

    def renewed(self):
        """Inputs as they were: a check has to begin from them."""
        for name, value in self.inputs.items():
            self.tensors[self.idents[name]].copy_(value)


def median_spread(samples):
    """The median, and the spread that a normal distribution with these quartiles has."""
    middle = statistics.median(samples)
    if len(samples) < 4:
        return middle, (max(samples) - min(samples)) / middle
    low, _, high = statistics.quantiles(samples, n=4)
    return middle, (high - low) / 1.349 / middle


def installed(package, oldest=None):
    """The version of a package.

    It is not installed, or too old: `Unable`."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Unable(f"the Python package `{package}` is not installed") from None
    numbers = [int(own) for own in re.findall(r"\d+", version)[:2]]
    if oldest is not None and numbers < oldest:
        raise Unable(f"`{package} {version}` is too old, it takes {'.'.join(map(str, oldest))} or later")
    return f"{package} {version}"


def cases(request, say):
    """The problems that can be opened; the others get their line."""
    backends = {}
    for problem in request["problems"]:
        try:
            yield Case(request, problem, backends)
        except Unable as error:
            say({"problem": problem["problem"], "reason": str(error)})
        except Exception as error:
            say({"problem": problem["problem"], "reason": f"{type(error).__name__}: {error}"[:300]})


# --- PyTorch


def torch_time(torch, backend, call):
    """Nanoseconds a call, spread and mode, by torch.utils.benchmark. A CUDA graph of many calls takes the host's part away."""
    from torch.utils.benchmark import Timer

    try:
        calls = evo_peer.graph_calls(backend.replay_ns(backend.capture(call, evo_peer.TRIAL_CALLS)) / evo_peer.TRIAL_CALLS)
        timed, mode = backend.capture(call, calls).replay, "hot"
    except Exception:
        timed, calls, mode = call, 1, "eager"
    backend.wait()
    found = Timer(stmt="timed()", globals={"timed": timed}).blocked_autorange(min_run_time=TORCH_SECONDS)
    middle, spread = median_spread([1e9 * own / calls for own in found.times])
    return middle, spread, mode


def torch_peer(case):
    """The fastest of PyTorch's own implementations of the same operator, by the same clock; nothing where it has none."""
    try:
        known = TorchBackend.implementations(case.backend, case.task, case.inputs)
    except Unable:
        return None
    times = []
    for call, why in known.values():
        try:
            if why is None and case.differs(call()) is None:
                times.append(torch_time(case.torch, case.backend, call)[0])
        except Exception:
            continue
    return min(times, default=None)


def run_torch(request, say):
    for case in cases(request, say):
        version = "torch " + case.torch.__version__
        try:
            launch = case.backend.torch_op(case.plan, case.tensors, case.sizes)
            correct, why = case.check(launch)
            if correct is False:
                say(case.line(version=version, correct=False, reason=why))
                continue
            case.renewed()
            middle, spread, mode = torch_time(case.torch, case.backend, launch)
            say(case.line(version=version, mode=mode, time_ns=middle, spread_ratio=spread, correct=correct, reason=why,
                          peer_ns=torch_peer(case) if request["role"] == "candidate" else None))
        except Exception as error:
            say(case.line(version=version, reason=f"{type(error).__name__}: {error}"[:300]))


# --- NVBench


def nvbench_figures(path):
    """Of each benchmark in NVBench's file: why it was skipped, and its summaries by tag."""
    with open(path, encoding="utf-8") as file:
        listed = json.load(file)["benchmarks"]
    found = {}
    for own in listed:
        for state in own["states"]:
            tags = {}
            for summary in state.get("summaries") or []:
                values = [one["value"] for one in summary.get("data", []) if one["name"] == "value"]
                if values:
                    tags[summary["tag"]] = values[0]
            found[own["name"]] = (state.get("skip_reason") if state.get("is_skipped") else None, tags)
    return found


def run_nvbench(request, say):
    version = installed("cuda-bench", [0, 3])
    import cuda.bench as bench

    opened = {}

    def add(case):
        own = case.backend.once("cuda-core", lambda: case.backend.module("cuda_core_example.py"))
        device = own.Device(case.backend.device.index or 0)
        device.set_current()
        pointers = {name: tensor.data_ptr() for name, tensor in case.tensors.items()}
        streams = {}

        def launch(launched):
            stream = launched.get_stream()
            at = stream.addressof()
            if at not in streams:
                streams[at] = device.create_stream(stream)
            own.call(streams[at], pointers, case.sizes)

        single = case.backend.cuda_core(case.plan, case.tensors, case.sizes)
        correct, why = case.check(single)
        if correct is False:
            say(case.line(version=version, correct=False, reason=why))
            return
        host_ns = case.host_ns(single)
        case.renewed()
        name = f"problem_{len(opened)}"
        opened[name] = (case, correct, why, host_ns)
        bench.register(lambda state: state.exec(launch)).set_name(name)

    for case in cases(request, say):
        try:
            add(case)
        except Exception as error:
            say(case.line(version=version, reason=f"{type(error).__name__}: {error}"[:300]))
    if not opened:
        return
    path = os.path.abspath(f"nvbench-{request['role']}.json")
    device = request["device"].partition(":")[2] or "0"
    bench.run_all_benchmarks(["evo", "--json", path, "--quiet", "--devices", device])
    figures = nvbench_figures(path)
    for name, (case, correct, why, host_ns) in opened.items():
        skipped, tags = figures.get(name, ("NVBench wrote nothing of it", {}))
        batch, alone = tags.get("nv/batch/time/gpu/mean"), tags.get("nv/cold/time/gpu/mean")
        wanted, seconds = "cold", alone
        if request["mode"] == "hot" and batch is not None:
            if 1e9 * float(batch) >= BATCH_MARGIN * host_ns:
                wanted, seconds = "hot", batch
            elif not why:
                why = f"a launch from Python takes {host_ns / 1e3:.0f} µs, so isolated calls are compared"
        spread = tags.get("nv/cold/time/gpu/stdev/relative")
        say(case.line(version=version, mode=wanted, time_ns=None if seconds is None else 1e9 * float(seconds),
                      spread_ratio=None if spread is None else float(spread), correct=correct, reason=skipped or why))


# --- KernelBench

MODEL = '''"""`{kernel}` at `{problem}` as a task of KernelBench: what is computed."""

import crosscheck
import torch


class Model(torch.nn.Module):
    def forward(self, *inputs):
        return crosscheck.CASES[{problem!r}].answer(inputs)


def get_inputs():
    return crosscheck.CASES[{problem!r}].given()


def get_init_inputs():
    return []
'''

MODEL_NEW = '''"""The exported kernel as an answer to it."""

import crosscheck
import torch


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return crosscheck.CASES[{problem!r}].launch(inputs)
'''

CASES = {}


class KernelBenchCase:
    """A problem whose inputs and only output are floats of one type, as KernelBench has them."""

    def __init__(self, case):
        roles = {buffer.name: buffer.role for buffer in case.plan.BUFFERS}
        if any(role in ("inout", "restored") for role in roles.values()):
            raise Unable("KernelBench has no inputs that a kernel changes")
        if len(case.expected) != 1 or sum(role == "output" for role in roles.values()) != 1:
            raise Unable("KernelBench compares one output, element by element")
        self.case = case
        self.torch = case.torch
        self.output = next(iter(case.expected))
        idents = {ident: name for name, ident in case.idents.items()}
        self.names = [idents[buffer.name] for buffer in case.plan.BUFFERS if buffer.role == "input"]
        types = {buffer.dtype for buffer in case.plan.BUFFERS if buffer.role in ("input", "output")}
        self.dtype = case.backend.dtype(types.pop()) if len(types) == 1 else None
        if self.dtype not in (self.torch.float32, self.torch.float16, self.torch.bfloat16):
            raise Unable("KernelBench casts all inputs to one type: f32, f16 or bf16")
        own = case.backend.once("torch-op", lambda: case.backend.module("torch_op.py"))
        self.operator = next(value for name, value in vars(own).items()
                             if type(value).__name__ == "CustomOpDef" and name.endswith("_new"))
        self.more = case.backend.open_sizes(case.plan, case.sizes)
        # Its evaluator compares shapes too.
        self.shape = tuple(case.plan.shapes(case.sizes)[case.idents[self.output]])
        self.calls = 0
        self.peer = self.peer_of(case.inputs)

    def peer_of(self, inputs):
        """PyTorch's own operator on these inputs; nothing where it has none."""
        try:
            known = TorchBackend.implementations(self.case.backend, self.case.task, inputs)
        except Unable:
            return None
        return next((call for call, why in known.values() if why is None), None)

    def given(self):
        """Inputs of the next call. What PyTorch can answer is checked on inputs of their own, drawn as KernelBench's tasks draw
        them: its tolerance is absolute near zero and fits sums of positive numbers. What is timed are evo's inputs."""
        inputs = self.case.inputs
        self.calls += 1
        if self.peer is not None:
            if self.calls <= KERNELBENCH_CHECKS:
                inputs = {name: self.torch.rand(value.shape, device=value.device).to(value.dtype)
                          for name, value in inputs.items()}
            self.peer = self.peer_of(inputs)
        return [inputs[name] for name in self.names]

    def answer(self, inputs):
        """PyTorch's own where it has the operator, on what was given last; else evo's reference."""
        if self.peer is not None:
            return self.peer()[self.output].reshape(self.shape)
        return self.case.expected[self.output].reshape(self.shape).to(self.dtype)

    def launch(self, inputs):
        return self.operator(*inputs, **self.more)


def kernelbench_evaluator():
    """KernelBench's evaluator, and which one it is. It is on no package registry, so a checkout serves as well as a package."""
    name = "kernelbench.eval"
    checkout = os.environ.get("EVO_KERNELBENCH")
    if checkout:
        # The second was its place until version 0.2.
        places = {"kernelbench.eval": "src", "src.eval": ""}
        name = next((name for name, own in places.items()
                     if os.path.isfile(os.path.join(checkout, own, *name.split(".")) + ".py")), None)
        if name is None:
            raise Unable(f"EVO_KERNELBENCH names `{checkout}`, which has neither src/kernelbench/eval.py nor src/eval.py")
        sys.path.insert(0, os.path.abspath(os.path.join(checkout, places[name])))
    elif importlib.util.find_spec("kernelbench") is None:
        raise Unable("the Python package `kernelbench` is not installed, and EVO_KERNELBENCH names no checkout of it")
    own = importlib.import_module(name)
    with open(own.__file__, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    try:
        version = "" if checkout else " " + importlib.metadata.version("kernelbench")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    # Its version number stays the same over many commits.
    return own.eval_kernel_against_ref, f"kernelbench{version} (eval.py {digest[:8]})"


def run_kernelbench(request, say):
    evaluate, version = kernelbench_evaluator()
    sys.modules["crosscheck"] = sys.modules[__name__]
    known = inspect.signature(evaluate).parameters
    path = "kernelbench_report.json"
    report = {"schema": "evo.kernelbench-report", "version": 1, "kernelbench": version, "problems": []}
    # The candidate's, which was asked about before.
    if request["role"] == "baseline" and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    for case in cases(request, say):
        try:
            own = CASES[case.name] = KernelBenchCase(case)
            words = {"kernel": request["kernel"], "problem": case.name}
            texts = MODEL.format(**words), MODEL_NEW.format(**words)
            options = {"num_correct_trials": KERNELBENCH_CHECKS, "num_perf_trials": KERNELBENCH_TRIALS,
                       "measure_performance": True, "timing_method": "cuda_event", "device": case.backend.device,
                       "backend": "cuda", "precision": own.dtype,
                       # Times the `Model`, which computes nothing where PyTorch does not know the operator.
                       "check_for_excessive_speedup": own.peer is not None}
            result = evaluate(*texts, **{name: value for name, value in options.items() if name in known})
            if result is None:
                raise Unable("its evaluator gave no result")
            fields = result.model_dump()
            report["problems"].append({"problem": case.name, "role": request["role"], "model": texts[0],
                                       "model_new": texts[1], "result": fields})
            # Versions that have no such choice leave the caches as they are.
            say(case.line(version=version, **kernelbench_line(own, fields, "timing_method" in known)))
        except Unable as error:
            say(case.line(version=version, reason=str(error)))
        except Exception as error:
            say(case.line(version=version, reason=f"{type(error).__name__}: {error}"[:300]))
        # After each problem: a later one may outlast the limit.
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2, default=str)


def kernelbench_line(own, fields, is_cold):
    """KernelBench counts in milliseconds."""
    stats, time_ms, peer_ms = fields["runtime_stats"], fields["runtime"], fields.get("ref_runtime", -1.0)
    metadata = fields["metadata"]
    line = {"correct": bool(fields["correctness"])}
    if not line["correct"]:
        told = next((str(metadata[key]) for key in ("runtime_error", "compilation_error", "correctness_issue")
                     if key in metadata), "its evaluator says no more")
        if "max_difference" in metadata:
            told += f" (largest differences: {', '.join(map(str, metadata['max_difference']))})"
        return {**line, "reason": told[:300]}
    if time_ms <= 0:
        return {**line, "reason": str(metadata.get("error_during_performance", "it gave no time"))[:300]}
    if not is_cold:
        return {**line, "reason": "this version does not flush the cache, so its times are of neither of evo's modes"}
    inputs = own.given()
    host_ns = own.case.host_ns(lambda: own.launch(inputs))
    told = f"its events may include the launch from Python, which takes {host_ns / 1e3:.0f} µs"
    if metadata.get("excessive_speedup"):
        told += "; it flags an excessive speedup over PyTorch"
    return {**line, "mode": "cold", "time_ns": 1e6 * time_ms, "spread_ratio": stats["std"] / stats["mean"],
            "overhead_ns": host_ns, "peer_ns": 1e6 * peer_ms if peer_ms > 0 and own.peer is not None else None,
            "reason": told}


# --- CUTLASS


def cutlass_rows(program, words, output):
    """Kernel and milliseconds of each kernel that CUTLASS's profiler timed."""
    for path in glob.glob(output + "*.csv"):
        os.remove(path)
    done = subprocess.run([program, "--operation=Gemm", "--verification-enabled=false", f"--output={output}.csv", *words],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = []
    for path in glob.glob(output + "*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                try:
                    found.append((row["Operation"], float(row["Runtime"])))
                except (KeyError, TypeError, ValueError):
                    continue
    found = [own for own in found if own[1] > 0]
    if not found:
        said = done.stdout.strip().splitlines()
        raise Unable(f"cutlass_profiler timed no kernel (exit code {done.returncode}): {said[-1][:200] if said else ''}")
    return found


def run_cutlass(request, say):
    program = os.environ.get("EVO_CUTLASS_PROFILER") or shutil.which("cutlass_profiler")
    if program is None:
        raise Unable("`cutlass_profiler` is not in PATH, and EVO_CUTLASS_PROFILER does not name it")
    said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    numbers = re.search(r"\d+\.\d+(\.\d+)?", said)
    version = f"cutlass_profiler {numbers.group()}" if numbers else None
    for problem in request["problems"]:
        line = {"problem": problem["problem"], "version": version}
        a, b, c = problem["inputs"].get("a"), problem["inputs"].get("b"), problem["expected"].get("c")
        if request["operator"] != "gemm" or None in (a, b, c):
            say({**line, "reason": "the kernel is not a GEMM"})
            continue
        if any(own["dtype"] not in CUTLASS_TYPES for own in (a, b, c)):
            say({**line, "reason": "CUTLASS has no kernel of these types"})
            continue
        types = [f"--{name}={CUTLASS_TYPES[own['dtype']]}:row" for name, own in (("A", a), ("B", b), ("C", c))]
        (m, k), n = a["shape"], b["shape"][1]
        words = [f"--m={m}", f"--n={n}", f"--k={k}", *types]
        try:
            name, first = min(cutlass_rows(program, words, "cutlass"), key=lambda own: own[1])
            times = [first]
            for _ in range(CUTLASS_RUNS):
                times.append(min(own[1] for own in cutlass_rows(program, [*words, f"--kernels={name}"], "cutlass")))
        except Unable as error:
            say({**line, "reason": str(error)})
            continue
        middle, spread = median_spread([1e6 * own for own in times])
        say({**line, "mode": "hot", "time_ns": middle, "spread_ratio": spread,
             "reason": f"the time of CUTLASS's own kernel {name}"})


HARNESSES = {"nvbench": run_nvbench, "torch": run_torch, "kernelbench": run_kernelbench, "cutlass": run_cutlass}


def main():
    harness, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    # Lines go where stdout was; what libraries print goes to stderr.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answered = set()

    def say(line):
        answered.add(line["problem"])
        print(json.dumps({name: value for name, value in line.items() if value is not None}), file=lines, flush=True)

    try:
        HARNESSES[harness](request, say)
        why = "it said nothing of this problem"
    except Unable as error:
        why = str(error)
    except ImportError as error:
        why = f"it cannot be imported: {error}"
    for problem in request["problems"]:
        if problem["problem"] not in answered:
            say({"problem": problem["problem"], "reason": why})


if __name__ == "__main__":
    main()
