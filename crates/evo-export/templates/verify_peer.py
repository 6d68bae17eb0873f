"""Calls exported files when evo verifies an export: a peer of `evo bench` with one implementation for each form.

    verify_peer.py FOLDER FORMAT…

The files get evo's inputs as tensors of PyTorch, whose memory every form can use, and are timed by PyTorch's events and
graphs as other peers are.
"""

import importlib.util
import json
import os
import sys

import evo_peer
from evo_peer import Peer, TorchBackend, Unable

FOLDER = sys.argv[1] if len(sys.argv) > 1 else ""
FORMATS = sys.argv[2:]


def told(error):
    """An error in a few words: of a build that failed, the compiler's first complaint in place of its command line."""
    lines = [line.strip() for line in str(error).splitlines()]
    complaint = next((line for line in lines if "error:" in line or "cannot find" in line), None)
    return f"{type(error).__name__}: {complaint or ' '.join(lines)}"[:300]


class ExportBackend(TorchBackend):
    """Tensors of PyTorch for all forms; what a form needs beside them is imported when it is asked for."""

    def __init__(self, device, folder=FOLDER):
        super().__init__(device)
        self.folder = folder
        if not self.is_cuda:
            raise Unable("an exported cubin runs on a GPU only")
        # A context that is current in this thread.
        self.torch.zeros(1, device=self.device)
        self.made = {}
        self.failed = {}

    def module(self, path):
        """An exported file as a module. Other exports have files of the same names, which must not be found in its place."""
        name = os.path.basename(path)[:-3]
        spec = importlib.util.spec_from_file_location("exported_" + name, os.path.join(self.folder, path))
        own = importlib.util.module_from_spec(spec)
        for other in ("launch_plan", "exact", "driver"):
            sys.modules.pop(other, None)
        sys.path.insert(0, self.folder)
        try:
            spec.loader.exec_module(own)
        finally:
            sys.path.remove(self.folder)
        return own

    def implementations(self, task, inputs):
        self.graphs = {}
        plan = self.once("plan", lambda: self.module("launch_plan.py"))
        known = {"torch-op": self.torch_op, "torch": self.torch_ext, "tvm-ffi": self.tvm_ffi, "cupy": self.cupy,
                 "cuda-core": self.cuda_core}
        listed = self.names()
        sizes = {own: task["sizes"][name] for name, own in listed["sizes"].items()}
        outputs = {name: own for name, own in listed["buffers"].items() if name in task["outputs"]}
        found = {}
        for form in FORMATS:
            # Each form has memory of its own: what another one has written must not be found there.
            tensors = {own: self.memory(plan, own, sizes, inputs.get(name)) for name, own in listed["buffers"].items()}
            changed = [buffer.name for buffer in plan.BUFFERS if buffer.role in ("inout", "restored")]
            kept = {name: tensors[name].clone() for name in changed}
            try:
                if form in self.failed:
                    raise self.failed[form]
                launch = known[form](plan, tensors, sizes)
            except Exception as error:
                # Of a build the first error counts: PyTorch does not build again what has failed, and misses its result then.
                if form in ("torch", "tvm-ffi"):
                    self.failed[form] = error
                found[form] = (None, told(error))
                continue

            def call(launch=launch, tensors=tensors, kept=kept):
                for name, value in kept.items():
                    tensors[name].copy_(value)
                launch()
                return {name: tensors[own] for name, own in outputs.items()}

            found[form] = (call, self.why_not(call))
        return found

    def memory(self, plan, name, sizes, given):
        """An input's own copy, or memory that holds what no kernel would leave there."""
        buffer = next(one for one in plan.BUFFERS if one.name == name)
        if given is not None:
            return given.clone()
        tensor = self.torch.empty(plan.shapes(sizes)[name], dtype=self.dtype(buffer.dtype), device=self.device)
        if buffer.constant is not None:
            return tensor.fill_(buffer.constant)
        return tensor.fill_(float("nan") if tensor.is_floating_point() else 85)

    def names(self):
        """Names of the task to identifiers of the files."""
        with open(os.path.join(self.folder, "manifest.json"), encoding="utf-8") as file:
            arguments = json.load(file)["arguments"]
        return {kind: {own["name"]: own["ident"] for own in arguments[kind]} for kind in ("sizes", "buffers")}

    def given(self, plan, tensors):
        return [tensors[buffer.name] for buffer in plan.BUFFERS if buffer.role != "scratch"]

    def open_sizes(self, plan, sizes):
        """Sizes that the operator takes by name: those that no input has as an extent."""
        outputs = {buffer.name for buffer in plan.BUFFERS if buffer.role in ("output", "scratch")}
        found = {name for name, buffer, _ in plan.FOUND_IN if buffer not in outputs}
        return {name: size for name, size in sizes.items() if name not in found}

    def once(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def torch_op(self, plan, tensors, sizes):
        own = self.once("torch-op", lambda: self.module("torch_op.py"))
        operator = next(value for name, value in vars(own).items()
                        if type(value).__name__ == "CustomOpDef" and not name.endswith("_new"))
        more = self.open_sizes(plan, sizes)
        return lambda: operator(*self.given(plan, tensors), **more)

    def torch_ext(self, plan, tensors, sizes):
        own = self.once("torch", lambda: self.module("torch_ext/load.py").load())
        return lambda: own.call(*(tensors[buffer.name] for buffer in plan.BUFFERS), [sizes[name] for name in plan.SIZES])

    def tvm_ffi(self, plan, tensors, sizes):
        import tvm_ffi
        own = self.once("tvm-ffi", lambda: self.module("tvm_ffi/load.py").load())
        arguments = [tensors[buffer.name] for buffer in plan.BUFFERS]

        def call():
            with tvm_ffi.use_torch_stream():
                own.call(*arguments, *(sizes[name] for name in plan.SIZES))

        return call

    def cupy(self, plan, tensors, sizes):
        import cupy
        own = self.once("cupy", lambda: self.module("cupy_example.py"))
        pointers = {name: tensor.data_ptr() for name, tensor in tensors.items()}

        def call():
            with cupy.cuda.ExternalStream(self.torch.cuda.current_stream().cuda_stream):
                own.call(pointers, sizes)

        return call

    def cuda_core(self, plan, tensors, sizes):
        own = self.once("cuda-core", lambda: self.module("cuda_core_example.py"))
        device = own.Device(self.device.index or 0)
        device.set_current()
        pointers = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        torch = self.torch

        class CurrentStream:
            def __cuda_stream__(self):
                return (0, torch.cuda.current_stream().cuda_stream)

        return lambda: own.call(device.create_stream(CurrentStream()), pointers, sizes)


class ExportPeer(Peer):
    def __init__(self):
        super().__init__("torch")
        self.make = ExportBackend


if __name__ == "__main__":
    evo_peer.Peer = lambda _: ExportPeer()
    sys.argv = sys.argv[:1]
    evo_peer.main()
