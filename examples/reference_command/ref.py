"""The expected outputs of `scale.toml`, in double precision, with the standard library alone.

evo hands over one case as a JSON object: sizes, scalars, and where its inputs lie as `.npy` files. This
program writes each expected output to the path that the object names. Called with `serve = true` it gets
an object a line, framed as {"v":1,"id":N,"body":CASE}, and answers each with {"v":1,"id":N,"body":"done"}.
"""

import array
import ast
import json
import sys

CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B"}


def read(path):
    """The elements of a `.npy` file of format version 1, in order."""
    with open(path, "rb") as file:
        assert file.read(8) == b"\x93NUMPY\x01\x00"
        header = ast.literal_eval(file.read(int.from_bytes(file.read(2), "little")).decode())
        return array.array(CODES[header["descr"]], file.read())


def write(path, descr, shape, values):
    """Writes a `.npy` file of format version 1."""
    extents = "".join(f"{extent}, " for extent in shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}\n".encode()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.write(array.array(CODES[descr], values).tobytes())


def answer(case):
    x = read(case["inputs"]["x"]["path"])
    alpha = float(case["scalars"]["alpha"])
    y = case["outputs"]["y"]
    write(y["path"], y["dtype"], y["shape"], [alpha * value + value * value for value in x])


for line in sys.stdin:
    request = json.loads(line)
    if "body" not in request:
        answer(request)
        continue
    answer(request["body"])
    print(json.dumps({"v": 1, "id": request["id"], "body": "done"}), flush=True)
