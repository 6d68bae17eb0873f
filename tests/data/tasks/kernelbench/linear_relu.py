import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer and ReLU."""

    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        return torch.relu(self.linear(x))


rows = 17
inner = 12
outer = 10


def get_inputs():
    return [torch.rand(rows, inner)]


def get_init_inputs():
    return [inner, outer]
