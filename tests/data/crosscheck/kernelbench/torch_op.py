"""The exported operator: OFF is what a wrong one adds."""

import torch

OFF = 0.0


class CustomOpDef:
    def __init__(self, call):
        self.call = call

    def __call__(self, *inputs, **sizes):
        assert not sizes, "every size is an extent of an input"
        return self.call(*inputs)


def made(a, b):
    found = torch.matmul(a, b)
    found.values[0] += OFF
    return found


gemm = CustomOpDef(None)
gemm_new = CustomOpDef(made)
