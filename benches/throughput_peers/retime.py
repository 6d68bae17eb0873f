"""Times configurations of both tools side by side: python3 retime.py SETTINGS.json, answer on stdout as JSON.

One process, one compiler (NVRTC through CuPy), CUDA events around batches of launches, the configurations taking
turns in every round. Neither tool's clock, warm-up or statistics has a part in it. Each answer is checked too.
"""

import json
import statistics
import sys
from pathlib import Path

ROUNDS = 15
BATCH_MS = 2.0  # a batch lasts about this long, so that the launch of its first kernel does not count


def main(path):
    import cupy as cp
    import numpy as np

    from spaces import Space

    settings = json.loads(Path(path).read_text())
    space = Space(settings["kernel"], "cuda")
    inputs = Path(settings["inputs"])
    arguments, out = [], None
    for name, role, what in space.arguments():
        if role == "scalar":
            arguments.append(np.int32(what))
        elif role == "input":
            arguments.append(cp.asarray(np.load(inputs / f"{name}.npy")))
        else:
            out = cp.zeros(what, dtype=cp.float32)
            arguments.append(out)
    expected = cp.asarray(np.load(inputs / "expected.npy"))
    source = space.source.read_text()

    ready, failed = {}, {}
    for key in settings["keys"]:
        configuration = space.configuration(key)
        defines = tuple(f"-D{name}={value}" for name, value in configuration.items())
        try:
            kernel = cp.RawModule(code=source, options=("-std=c++17", *defines)).get_function(space.entry)
            grid, block = space.launch(configuration)
            shared = space.shared_bytes(configuration)
            out.fill(cp.nan)
            kernel(grid, block, tuple(arguments), shared_mem=shared)
            if not bool(cp.allclose(out, expected, atol=space.peer["atol"], rtol=1e-4)):
                failed[key] = "wrong answer"
                continue
            launch = (kernel, grid, block, shared)
            first = batch(cp, launch, arguments, 3)
            ready[key] = (launch, max(1, round(BATCH_MS / first)))
        except Exception as error:
            failed[key] = f"{type(error).__name__}: {error}"[:500]
    samples = {key: [] for key in ready}
    for _ in range(ROUNDS):
        for key, (launch, count) in ready.items():
            batch(cp, launch, arguments, 1)
            samples[key].append(1e6 * batch(cp, launch, arguments, count))
    times = {key: statistics.median(values) for key, values in samples.items()}
    spread = {key: (max(v) - min(v)) / times[key] for key, v in samples.items()}
    print(json.dumps({"times_ns": times, "spread": spread, "failed": failed, "cupy": cp.__version__}))


def batch(cp, launch, arguments, count):
    """Milliseconds a launch, over `count` launches."""
    kernel, grid, block, shared = launch
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    for _ in range(count):
        kernel(grid, block, tuple(arguments), shared_mem=shared)
    end.record()
    end.synchronize()
    return cp.cuda.get_elapsed_time(start, end) / count


if __name__ == "__main__":
    main(sys.argv[1])
