"""Tensors of torch: through shared memory, handed over, pickled."""

import numpy
import torch


def make():
    values = torch.ones((300, 1000), dtype=torch.float64)
    return values, torch.ones(3, dtype=torch.bfloat16), torch.eye(3).to_sparse(), values.requires_grad_().t()


def write(values: torch.Tensor):
    """Writes to its input: nobody else sees it."""
    values.add_(1)
    return values.sum().item()


def look(values: torch.Tensor, half: torch.Tensor, sparse: torch.Tensor, turned: numpy.ndarray, sums):
    return "; ".join(
        [
            f"{type(values).__name__} {values.dtype} {tuple(values.shape)} of {values.sum().item()}, written {sums}",
            f"{half.dtype} of {half.float().sum().item()}",
            f"sparse {sparse.is_sparse} of {sparse.to_dense().sum().item()}",
            f"{type(turned).__name__} {turned.shape} of {turned.sum()}, writable {turned.flags.writeable}",
        ]
    )


def small():
    return torch.zeros(4)


def kind(values, sum):
    """Without an annotation it is an array, handed over or sent."""
    return f"{type(values).__name__} of {values.sum()}, written {sum}"
