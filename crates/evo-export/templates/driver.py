"""Launches kernels of a cubin through the CUDA driver, by ctypes: no compiler and no further package is needed.

The calling thread has a current context, as it has after any work of PyTorch, CuPy or `cuda.core` on a device.
"""

import ctypes
import struct

COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC = 2, 4, 6
L2_PROMOTION_128B = 2
MAP_BYTES, MAP_ALIGNMENT = 128, 64
# Encoded maps that are kept.
MAPS_MAX = 1024
MAX_DYNAMIC_SHARED = 8
TYPES = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
}


class DriverError(RuntimeError):
    """The driver refused a call."""


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_char * 64)]


class Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    ]


def _library():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"there is no CUDA driver: {error}") from None


class Module:
    """A cubin, loaded into each context in which it is used."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.image = file.read()
        self.driver = _library()
        self.functions = {}
        self.maps = {}

    def _checked(self, code, what):
        if code != 0:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError(f"{what}: {(text.value or b'error').decode()} ({code})")

    def _function(self, name):
        context = ctypes.c_void_p()
        self._checked(self.driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
        if not context.value:
            raise DriverError("this thread has no CUDA context; use the device once before")
        key = (context.value, name)
        if key not in self.functions:
            module = self.functions.get((context.value, None))
            if module is None:
                module = ctypes.c_void_p()
                self._checked(self.driver.cuModuleLoadData(ctypes.byref(module), self.image), "loading the cubin")
                self.functions[(context.value, None)] = module
            function = ctypes.c_void_p()
            found = self.driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
            self._checked(found, f"the kernel {name}")
            self.functions[key] = [function, 0]
        return self.functions[key]

    def _map(self, own, pointer):
        """A tensor map as the driver encodes it for an address, which decides it together with the layout."""
        key = (own, pointer)
        if key in self.maps:
            return self.maps[key]
        if not hasattr(self.driver, "cuTensorMapEncodeTiled"):
            raise DriverError("the driver has no tensor maps: it is older than CUDA 12.0")
        rank = len(own.dims)
        memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        offset = -ctypes.addressof(memory) % MAP_ALIGNMENT
        encoded = (ctypes.c_char * MAP_BYTES).from_buffer(memory, offset)
        dims, strides = (ctypes.c_uint64 * rank)(*own.dims), (ctypes.c_uint64 * rank)(*own.strides)
        box, steps = (ctypes.c_uint32 * rank)(*own.box), (ctypes.c_uint32 * rank)(*[1] * rank)
        code = self.driver.cuTensorMapEncodeTiled(
            encoded, own.data_type, rank, ctypes.c_void_p(pointer), dims, strides, box, steps, 0, own.swizzle,
            L2_PROMOTION_128B, own.fill)
        self._checked(code, f"the tensor map {own.name}")
        if len(self.maps) >= MAPS_MAX:
            self.maps.clear()
        self.maps[key] = encoded
        return encoded

    def _argument(self, kind, value, pointers):
        if kind == "buffer":
            return ctypes.c_void_p(pointers[value])
        if kind == "tensor_map":
            return self._map(value, pointers[value.buffer])
        return TYPES[kind](value)

    def launch(self, planned, pointers, stream):
        """One launch of `launch_plan.launches`; `pointers` by buffer, `stream` as the driver's handle."""
        own = self._function(planned.entry)
        if planned.shared_bytes > own[1]:
            # Static and dynamic shared memory together may exceed 48 KiB only after this.
            code = self.driver.cuFuncSetAttribute(own[0], MAX_DYNAMIC_SHARED, planned.shared_bytes)
            self._checked(code, f"{planned.shared_bytes} bytes of shared memory for {planned.entry}")
            own[1] = planned.shared_bytes
        values = [self._argument(kind, value, pointers) for kind, value in planned.arguments]
        arguments = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
        attributes = []
        if planned.cluster is not None:
            attributes.append((CLUSTER_DIMENSION, struct.pack("III", *planned.cluster)))
        if planned.cooperative:
            attributes.append((COOPERATIVE, struct.pack("i", 1)))
        if planned.programmatic:
            attributes.append((PROGRAMMATIC, struct.pack("i", 1)))
        listed = (Attribute * max(len(attributes), 1))()
        for at, (number, value) in enumerate(attributes):
            listed[at].id = number
            ctypes.memmove(ctypes.addressof(listed[at]) + Attribute.value.offset, value, len(value))
        config = Config(planned.grid, planned.block, planned.shared_bytes, stream, listed, len(attributes))
        code = self.driver.cuLaunchKernelEx(ctypes.byref(config), own[0], arguments, None)
        self._checked(code, f"launching {planned.entry} with grid {planned.grid} and block {planned.block}")
