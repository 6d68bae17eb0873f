"""Modules with parameters."""

from . import Tensor, float32, rand


class Parameter(Tensor):
    def __init__(self, tensor):
        super().__init__(tensor.shape, tensor.values, tensor.dtype)


class Module:
    training = True

    def named_modules(self, lead=""):
        yield lead, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules(f"{lead}.{name}" if lead else name)

    def named_parameters(self):
        for lead, module in self.named_modules():
            for name, value in getattr(module, "_parameters", {}).items():
                yield (f"{lead}.{name}" if lead else name), value

    def named_buffers(self):
        return iter(())

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self.__dict__.setdefault("_parameters", {})[name] = value
        else:
            self.__dict__[name] = value

    def __getattr__(self, name):
        try:
            return self.__dict__["_parameters"][name]
        except KeyError:
            raise AttributeError(name) from None

    def double(self):
        return self

    def to(self, device):
        return self

    def __call__(self, *inputs):
        return self.forward(*inputs)


class Linear(Module):
    def __init__(self, inner, outer):
        self.weight = Parameter(rand(outer, inner))
        self.bias = Parameter(Tensor((outer,), [0.0] * outer, float32))

    def forward(self, x):
        return x @ self.weight.T + self.bias


class Dropout(Module):
    def __init__(self, p=0.5):
        self.p = p

    def forward(self, x):
        return x
