import ast
import ctypes
import importlib.util
import json
import os
import sys

try:
    import torch
except ImportError as error:
    sys.exit(f"this reference needs PyTorch ({error}): install the package `torch` for this Python")

# The task's source computes in double precision where it can: its floating-point inputs are given as such. Where it then
# fails, for example because it mixes them with tensors of a type that it names itself, it is asked again in the task's types.
WIDE = True
# "cuda" is faster for large problems; no process of a variant is there while this program runs.
DEVICE = "cpu"

# Name in the task, name in the space file, type, number of dimensions (None: a plain number).
# <rows>
TYPES = {
    "<f2": torch.float16,
    "<f4": torch.float32,
    "<f8": torch.float64,
    "|i1": torch.int8,
    "<i2": torch.int16,
    "<i4": torch.int32,
    "<i8": torch.int64,
    "|u1": torch.uint8,
}


def load():
    # No files of Python's own beside the task.
    sys.dont_write_bytecode = True
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "task.py")
    spec = importlib.util.spec_from_file_location("task", path)
    module = importlib.util.module_from_spec(spec)
    # Sources that look their own module up, such as those with dataclasses, find it.
    sys.modules["task"] = module
    spec.loader.exec_module(module)
    return module


def read(own):
    """The tensor in a `.npy` file."""
    with open(own["path"], "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{own['path']} is not a .npy file")
        width = 2 if file.read(2)[0] == 1 else 4
        header = ast.literal_eval(file.read(int.from_bytes(file.read(width), "little")).decode())
        data = bytearray(file.read())
    dtype, shape = TYPES[header["descr"]], header["shape"]
    if not data:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def write(own, name, rank, tensor):
    """Writes an answer as a `.npy` file."""
    shape = list(tensor.shape)
    if shape != own["shape"] and not (rank == 0 and shape == []):
        raise ValueError(f"the task returns `{name}` with the shape {shape}, expected {own['shape']}")
    tensor = tensor.detach().to("cpu").to(TYPES[own["dtype"]]).contiguous()
    size = tensor.numel() * tensor.element_size()
    extents = "".join(f"{extent}, " for extent in own["shape"])
    header = f"{{'descr': '{own['dtype']}', 'fortran_order': False, 'shape': ({extents}), }}\n".encode()
    with open(own["path"], "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        if size:
            file.write(ctypes.string_at(tensor.data_ptr(), size))


def arguments(case, wide):
    """What the task's function takes, in its order."""
    found = []
    for _, label, dtype, rank in INPUTS:
        if rank is None:
            kind = bool if dtype == "bool" else float if "float" in dtype else int
            found.append(kind(case["scalars"][label]))
            continue
        own = torch.float64 if wide and "float" in dtype else getattr(torch, dtype)
        tensor = read(case["inputs"][label]).to(own).to(DEVICE)
        found.append(tensor.reshape(()) if rank == 0 else tensor)
    return found


# <call>


def computed(case, wide):
    """The task's answers in their order."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    with torch.no_grad():
        answers = call(case, wide)
    if isinstance(answers, dict):
        answers = [answers[name] for name, _, _, _ in OUTPUTS]
    elif not isinstance(answers, (tuple, list)):
        answers = [answers]
    if len(answers) != len(OUTPUTS):
        raise ValueError(f"the task returns {len(answers)} tensors, expected {len(OUTPUTS)}")
    return answers


def answer(case):
    answers = None
    if WIDE:
        try:
            answers = computed(case, True)
        except Exception as error:
            print(f"in the task's own types, because in double precision: {error}", file=sys.stderr)
    if answers is None:
        answers = computed(case, False)
    for (name, label, _, rank), tensor in zip(OUTPUTS, answers):
        write(case["outputs"][label], name, rank, tensor)


# What the task prints must not stand among the answers.
told = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
task = load()
for line in sys.stdin:
    request = json.loads(line)
    if "body" not in request:
        answer(request)
        continue
    try:
        answer(request["body"])
        body = "done"
    except Exception as error:
        body = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps({"v": 1, "id": request["id"], "body": body}), file=told, flush=True)
