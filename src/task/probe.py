"""Runs a task of KernelBench and describes its module as one JSON object on stdout."""

import contextlib
import importlib.util
import inspect
import json
import os
import sys

# What the task prints must not stand beside the answer.
told = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def tell(answer):
    print(json.dumps(answer), file=told, flush=True)
    # Threads of the task's do not keep the process alive.
    os._exit(0)


def refuse(place, what, hint):
    tell({"refused": {"place": place, "what": what, "hint": hint}})


def short(error):
    return f"{type(error).__name__}: {error}"[:300]


try:
    import torch
except ImportError as error:
    tell({"missing": short(error)})


def load(path):
    spec = importlib.util.spec_from_file_location("task", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["task"] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        refuse("the file", f"it does not run: {short(error)}", "run it with this Python to see why")
    for name in ["Model", "get_inputs", "get_init_inputs"]:
        if not callable(getattr(module, name, None)):
            hint = "a task of KernelBench has `Model`, `get_inputs()` and `get_init_inputs()`"
            refuse("the file", f"it has no `{name}`", hint)
    return module


def made(task, device):
    """Module, inputs and outputs on a device; on `meta` nothing is computed or allocated."""
    place = torch.device(device) if device == "meta" else contextlib.nullcontext()
    torch.manual_seed(0)
    with place, torch.no_grad():
        model = task.Model(*task.get_init_inputs())
        inputs = task.get_inputs()
        return model, inputs, listed(model(*inputs))


def listed(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def dtype(tensor):
    return str(tensor.dtype).replace("torch.", "")


def look(model, inputs, outputs):
    """Refuses what a kernel cannot be given or cannot answer."""
    for at, value in enumerate(inputs):
        if not is_tensor(value) and type(value) not in (int, float, bool):
            hint = "inputs are tensors and plain numbers"
            refuse(f"get_inputs()[{at}]", f"a `{type(value).__name__}` is not supported", hint)
    for at, value in enumerate(outputs):
        if not is_tensor(value):
            hint = "outputs are tensors, one or several in a tuple"
            refuse(f"Model.forward, output {at}", f"a `{type(value).__name__}` is not supported", hint)
    for name, module in model.named_modules():
        place = f"Model.{name}" if name else "Model"
        if "Dropout" in type(module).__name__ and module.training and getattr(module, "p", 1) > 0:
            hint = "call `self.eval()` in the model, or give it p = 0"
            refuse(place, f"a random `{type(module).__name__}` in training mode is not supported", hint)
        for own, value in vars(module).items():
            if is_tensor(value):
                hint = "make it a parameter or call `register_buffer`, so that the kernel gets it too"
                what = "a tensor that is neither a parameter nor a buffer is not supported"
                refuse(f"{place}.{own}", what, hint)


def changed(shape, swap):
    return [swap.get(extent, extent) for extent in shape]


def shapes_at(model, inputs, swap):
    """The outputs' shapes where extents of inputs are others; absent where the module does not take them."""
    torch.manual_seed(0)
    others = []
    for value in inputs:
        if is_tensor(value):
            value = torch.zeros(changed(value.shape, swap), dtype=value.dtype, device=value.device)
        others.append(value)
    try:
        with torch.no_grad():
            return [list(own.shape) for own in listed(model(*others))]
    except Exception:
        return None


def follows(first, then, extent, other):
    """Which of the outputs' extents follow an input's, or nothing where one changes in another way."""
    if then is None or [len(own) for own in first] != [len(own) for own in then]:
        return None
    found = set()
    for number, (one, two) in enumerate(zip(first, then)):
        for at, (before, after) in enumerate(zip(one, two)):
            if before != after and (before, after) != (extent, other):
                return None
            if before != after:
                found.add((number, at))
    return found


def variable(model, inputs, outputs):
    """The extents of inputs that may be others, and where each stands in the outputs."""
    first = [list(own.shape) for own in outputs]
    extents = []
    for value in inputs:
        for extent in value.shape if is_tensor(value) else []:
            if extent > 1 and extent not in extents:
                extents.append(extent)
    found = {}
    for extent in extents:
        tried = [extent + 1, extent // 2 + 1]
        seen = []
        for other in [own for own in tried if own != extent]:
            seen.append(follows(first, shapes_at(model, inputs, {extent: other}), extent, other))
        if seen and seen[0] is not None and all(own == seen[0] for own in seen):
            found[extent] = seen[0]
    # All of them at once, each by another number.
    swap = {extent: extent + 1 + at for at, extent in enumerate(found)}
    if len(found) > 1:
        expected = [list(own) for own in first]
        for extent, places in found.items():
            for number, at in places:
                expected[number][at] = swap[extent]
        if shapes_at(model, inputs, swap) != expected:
            found = dict(list(found.items())[:1])
    return found


def names_of(task, extents):
    """The task's own names of numbers, where one has no other."""
    found = {}
    for at, extent in enumerate(extents):
        numbers = [(name, value) for name, value in vars(task).items() if type(value) is int and name.isascii()]
        own = [name for name, value in numbers if value == extent and not name.startswith("_")]
        found[extent] = own[0] if len(own) == 1 else f"n{at}"
    return found


task = load(sys.argv[1])
try:
    model, inputs, outputs = made(task, "meta")
except Exception:
    try:
        model, inputs, outputs = made(task, "cpu")
    except Exception as error:
        refuse("Model.forward", f"it does not run: {short(error)}", "run the file with this Python to see why")
inputs = list(inputs)
look(model, inputs, outputs)
axes = variable(model, inputs, outputs)
names = names_of(task, axes)


def sized(shape):
    return [names.get(extent, extent) for extent in shape]


given = list(inspect.signature(model.forward).parameters)
rows, workload = {}, {}
for at, value in enumerate(inputs):
    name = given[at] if at < len(given) else f"in{at}"
    if is_tensor(value):
        rows[name] = {"dtype": dtype(value), "shape": sized(value.shape)}
        workload[name] = {"type": "random"}
    else:
        rows[name] = {"dtype": {bool: "bool", int: "int32", float: "float32"}[type(value)]}
        workload[name] = {"type": "scalar", "value": value}
weights = {}
for name, value in list(model.named_parameters()) + list(model.named_buffers()):
    # Counters, such as those of batch norms, are no inputs of a kernel's.
    if value.is_floating_point():
        weights[name] = {"dtype": dtype(value), "shape": list(value.shape)}
answers = {}
for number, value in enumerate(outputs):
    shape = list(value.shape)
    for extent, places in axes.items():
        for at in [at for own, at in places if own == number]:
            shape[at] = names[extent]
    answers[f"out{number + 1}" if number else "out"] = {"dtype": dtype(value), "shape": shape}
if not answers:
    refuse("Model.forward", "it returns nothing", "a task has at least one output")
tell(
    {
        "name": sys.argv[2],
        "axes": {names[extent]: {"type": "var"} for extent in axes},
        "inputs": rows,
        "weights": weights,
        "outputs": answers,
        # Its own text, and not that of the class from which it is derived.
        "description": " ".join((vars(task.Model).get("__doc__") or "").split())[:200] or None,
        "workload": {"axes": {names[extent]: extent for extent in axes}, "inputs": workload},
    }
)
