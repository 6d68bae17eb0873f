
import ast, json, struct, sys
CODES = {"<f2": "e", "<f4": "f", "<f8": "d", "<i8": "q"}
def read(own):
    with open(own["path"], "rb") as file:
        file.read(8)
        head = ast.literal_eval(file.read(int.from_bytes(file.read(2), "little")).decode())
        assert head["descr"] == own["dtype"] and list(head["shape"]) == own["shape"]
        data = file.read()
    code = CODES[head["descr"]]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)
def write(own, values):
    shape = "".join(f"{extent}, " for extent in own["shape"])
    head = f"{{'descr': '{own['dtype']}', 'fortran_order': False, 'shape': ({shape}), }}\n".encode()
    with open(own["path"], "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        file.write(struct.pack(f"<{len(values)}{CODES[own['dtype']]}", *values))
case = json.load(sys.stdin)
open("asked", "a").write(case["case"] + "\n")
assert case["schema"] == "evo.reference" and case["version"] == 1 and case["scalars"]["n"] == case["sizes"]["N"]
given, wanted = case["inputs"], case["outputs"]
assert sorted(given) == ["acc", "b", "k", "x"] and sorted(wanted) == ["acc", "twice"]
assert given["b"]["dtype"] == "<f4" and wanted["acc"]["dtype"] == "<f4" and wanted["twice"]["dtype"] == "<i8"
x, b, acc, k = (read(given[name]) for name in ["x", "b", "acc", "k"])
write(wanted["acc"], [own + one + other for own, one, other in zip(acc, x, b)])
write(wanted["twice"], [2 * one for one in k])
