"""Tests an exported operator beyond its answers: opcheck, torch.compile, a CUDA graph, and calls that have to be refused.

    operators.py FOLDER
"""

import json
import os
import sys

import torch

folder = os.path.abspath(sys.argv[1])
sys.path.insert(0, folder)
import launch_plan as plan  # noqa: E402
import torch_op  # noqa: E402

with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
    manifest = json.load(file)
operator = next(own for name, own in vars(torch_op).items()
                if type(own).__name__ == "CustomOpDef" and not name.endswith("_new"))
fresh = next((own for name, own in vars(torch_op).items()
              if type(own).__name__ == "CustomOpDef" and name.endswith("_new")), None)


def sizes_of_a_problem():
    """The sizes that the example of `cuda.core` has: a timed problem of the space."""
    with open(os.path.join(folder, "cuda_core_example.py"), encoding="utf-8") as file:
        line = next(line for line in file if line.strip().startswith("sizes = {"))
    return json.loads(line.split("=", 1)[1])


def tensors(sizes):
    torch.manual_seed(1)
    made = {}
    for buffer in plan.BUFFERS:
        if buffer.role == "scratch":
            continue
        dtype, shape = torch_op.DTYPES[buffer.dtype], plan.shapes(sizes)[buffer.name]
        if dtype.is_floating_point:
            made[buffer.name] = torch.randn(shape, device="cuda").to(dtype)
        else:
            made[buffer.name] = torch.randint(0, 2, shape, device="cuda").to(dtype)
        if buffer.constant is not None:
            made[buffer.name].fill_(buffer.constant)
    return made


def check(what, run):
    try:
        run()
        print(f"pass  {what}")
        return True
    except Exception as error:
        print(f"FAIL  {what}: {type(error).__name__}: {error}")
        return False


sizes = sizes_of_a_problem()
own = tensors(sizes)
outputs = [buffer.name for buffer in plan.BUFFERS if buffer.role in ("output", "inout")]
inputs = [buffer.name for buffer in plan.BUFFERS if buffer.role not in ("output", "scratch")]
read_extents = {name for name, buffer, _ in plan.FOUND_IN if buffer in inputs}
more = {name: size for name, size in sizes.items() if name not in read_extents}
print(f"{manifest['kernel']} {manifest['configuration']} at {sizes}")
operator(*own.values(), **more)
torch.cuda.synchronize()
expected = {name: own[name].clone() for name in outputs}


def same(found):
    torch.cuda.synchronize()
    for name in outputs:
        if not torch.equal(found[name], expected[name]):
            raise AssertionError(f"{name} differs from the eager call by up to {(found[name] - expected[name]).abs().max()}")


def compiled():
    again = tensors(sizes)
    torch.compile(lambda *given: operator(*given, **more), fullgraph=True)(*again.values())
    same(again)


def compiled_fresh():
    given = [tensors(sizes)[name] for name in inputs]
    found = torch.compile(lambda *given: fresh(*given, **more), fullgraph=True)(*given)
    found = found if isinstance(found, tuple) else (found,)
    names = [buffer.name for buffer in plan.BUFFERS if buffer.role == "output"]
    for name, value in zip(names, found):
        if not torch.equal(value, expected[name]):
            raise AssertionError(f"{name} differs")


def graph():
    again = tensors(sizes)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        operator(*again.values(), **more)
    for name, value in tensors(sizes).items():
        again[name].copy_(value)
    captured.replay()
    same(again)


def refused(change):
    def run():
        bad = change(dict(tensors(sizes)))
        try:
            operator(*bad.values(), **more)
        except (TypeError, ValueError, RuntimeError) as error:
            print(f"      refused with: {error}")
            return
        raise AssertionError("it was accepted")
    return run


def first(change):
    def run(given):
        given[inputs[0]] = change(given[inputs[0]])
        return given
    return run


def shifted(tensor):
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape)


done = [
    check("opcheck", lambda: torch.library.opcheck(operator, tuple(tensors(sizes).values()), more)),
    check("opcheck of the one with new outputs", lambda: torch.library.opcheck(fresh, tuple(tensors(sizes)[name] for name in inputs), more)) if fresh else True,
    check("torch.compile", compiled),
    check("torch.compile of the one with new outputs", compiled_fresh) if fresh else True,
    check("CUDA graph", graph),
    check("another data type is refused", refused(first(lambda own: own.double()))),
    check("another shape is refused", refused(first(lambda own: own[..., :-1].contiguous()))),
    check("a tensor that is not contiguous is refused", refused(first(lambda own: own.transpose(-1, -2)))),
    check("the processor's memory is refused", refused(first(lambda own: own.cpu()))),
    check("a misaligned tensor is refused", refused(first(shifted))),
]
sys.exit(0 if all(done) else 1)
