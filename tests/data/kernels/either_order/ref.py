import array, json, struct, sys
case = json.load(sys.stdin)
def body(path):
    data = open(path, "rb").read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:]
rows, columns = case["inputs"]["x"]["shape"]
x = array.array("f", body(case["inputs"]["x"]["path"]))
y = array.array("d", [0.0] * (rows * columns))
for i in range(rows):
    for j in range(columns):
        first = case["parameters"]["COLUMNS_FIRST"]
        y[j * rows + i if first else i * columns + j] = 3.0 * x[i * columns + j]
head = ("{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % len(y)).ljust(117) + "\n"
with open(case["outputs"]["y"]["path"], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + y.tobytes())
