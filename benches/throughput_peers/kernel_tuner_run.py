"""One search of Kernel Tuner, in a process of its own: python3 kernel_tuner_run.py SETTINGS.json

Writes `search.json` beside the settings: when the search began and ended (seconds since the epoch), versions, and
the best configuration or the error. Kernel Tuner's own cache file, begun empty, holds every evaluation with its time
of day, also after a crash.
"""

import json
import random
import sys
import time
import traceback
from pathlib import Path


def main(path):
    settings = json.loads(Path(path).read_text())
    folder = Path(path).parent
    found = {"began": None, "ended": None, "versions": {}, "error": None}
    try:
        search(settings, folder, found)
    except BaseException as error:  # an interrupt too is a result to report
        found["error"] = f"{type(error).__name__}: {error}"[:2000]
        traceback.print_exc()
    finally:
        found["ended"] = time.time()
        (folder / "search.json").write_text(json.dumps(found))
    return 1 if found["error"] else 0


def search(settings, folder, found):
    import numpy as np
    import kernel_tuner

    from spaces import Space

    space = Space(settings["kernel"], "cuda")
    found["versions"] = {"kernel_tuner": version("kernel_tuner"), "numpy": np.__version__, "cupy": version("cupy")}
    inputs = Path(settings["inputs"])
    arguments, answer = [], []
    for name, role, what in space.arguments():
        if role == "scalar":
            arguments.append(np.int32(what))
        elif role == "input":
            arguments.append(np.load(inputs / f"{name}.npy"))
        else:
            arguments.append(np.zeros(what, dtype=np.float32))
        answer.append(np.load(inputs / "expected.npy") if role == "output" else None)
    sizes = [space.sizes[name] for name in space.peer["problem"]]
    divisors = space.peer["divisors"]
    random.seed(settings["seed"])
    np.random.seed(settings["seed"])

    found["began"] = time.time()
    kernel_tuner.tune_kernel(
        space.entry,
        str(space.source),
        tuple(sizes),
        arguments,
        dict(space.parameters),
        grid_div_x=[divisors[0]],
        grid_div_y=divisors[1:] or None,
        smem_args={"size": space.shared_bytes},
        restrictions=list(space.constraints) or None,
        answer=answer,
        atol=space.peer["atol"],
        block_size_names=list(space.peer["block"]),
        lang="CUPY",
        compiler_options=["-std=c++17"],
        strategy=settings["strategy"],
        strategy_options={} if settings["strategy"] == "brute_force" else {"max_fevals": settings["budget"]},
        cache=str(folder / "cache.json"),
        seed=settings["seed"],
        simulation_mode=False,
        quiet=True,
    )


def version(package):
    from importlib import metadata

    for name in (package, f"{package}-cuda13x", f"{package}-cuda12x"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
