"""What an exported product of matrices says of itself."""

from collections import namedtuple

Buffer = namedtuple("Buffer", "name dtype role constant")
BUFFERS = (Buffer("a", "f32", "input", None), Buffer("b", "f32", "input", None), Buffer("c", "f32", "output", None))
FOUND_IN = (("m", "a", 0), ("k", "a", 1), ("n", "b", 1))


def shapes(sizes):
    return {"a": (sizes["m"], sizes["k"]), "b": (sizes["k"], sizes["n"]), "c": (sizes["m"], sizes["n"])}
