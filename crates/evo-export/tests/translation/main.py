import struct
from exact import *


def show(f, N, M):
    try:
        a = value_of(lambda: f(Exact(N), Exact(M)))
    except NoValue:
        return print("none")
    if isinstance(a, str):
        return print("text", len(a.encode()))
    a = Exact(a).n
    if isinstance(a, int):
        return print("whole", a)
    print("fraction", struct.unpack("<Q", struct.pack("<d", a + 0.0))[0])


