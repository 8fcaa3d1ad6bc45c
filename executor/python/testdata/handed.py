"""Tensors that one task hands to the next in its process: nothing is copied from their device only to ask what they are."""

import sys
import threading
import types
from typing import Any

import numpy


class Device:
    def __init__(self, type: str) -> None:
        self.type = type


class Tensor:
    """As much of torch's as is asked for."""

    def __init__(self, name: str, layout: str = "strided", dtype: str = "float64", device: str = "cuda") -> None:
        self.name, self.layout, self.dtype, self.device = name, layout, dtype, Device(device)
        self.done: list[str] = []

    def _note(self, what: str) -> "Tensor":
        self.done.append(what)
        return self

    def detach(self) -> "Tensor":
        return self

    def clone(self) -> "Tensor":
        return self._note(f"clone on {self.device.type}")

    def cpu(self) -> "Tensor":
        return self if self.device.type == "cpu" else self._note("copy to the host")

    def resolve_conj(self) -> "Tensor":
        return self

    def resolve_neg(self) -> "Tensor":
        return self

    def contiguous(self) -> "Tensor":
        return self

    def numpy(self) -> Any:
        if self.layout != "strided" or self.dtype == "bfloat16":
            raise TypeError(f"no array of {self.layout} {self.dtype}")
        return numpy.ones(3, self.dtype)


torch: Any = types.ModuleType("torch")
torch.Tensor, torch.strided = Tensor, "strided"
torch.empty = lambda size, dtype: Tensor("", dtype=dtype, device="cpu")
sys.modules["torch"] = torch

from cascade.executor.outputs import shared  # noqa: E402 (torch comes first)

for tensor in (
    Tensor("on a device"),
    Tensor("on the host", device="cpu"),
    Tensor("sparse", layout="sparse_coo", device="cpu"),
    Tensor("of half the bits", dtype="bfloat16", device="cpu"),
    Tensor("of half the bits on a device", dtype="bfloat16"),
):
    for want in (Tensor, None):
        tensor.done.clear()
        got = shared(tensor, want)
        print(f"{tensor.name}, wanted as {want and 'tensor'}: {type(got).__name__}, {', '.join(tensor.done) or 'no copy'}")

from cascade.values import encode, on_device  # noqa: E402 (torch comes first)


class Away:
    """What says where it lies by DLPack, or by the interface of CUDA arrays."""

    nbytes = 24

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.kind == 0:
            raise RuntimeError("broken")
        return self.kind, 0


class Cuda:
    """As numba has them: its bytes are not told."""

    __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012 (nobody writes to it)


Tensor.nbytes = 8  # type: ignore[attr-defined]
tensor = Tensor("on a device")
for value in (Away(2), Away(13), Away(1), Away(3), Away(11), Away(0), Cuda(), tensor, Tensor("", device="cpu"), Tensor("", device="meta"), numpy.ones(3), [tensor]):
    name = type(value).__name__ + (f" {value.kind}" if isinstance(value, Away) else f" {value.device.type}" if isinstance(value, Tensor) else "")
    print(f"{name}: {on_device(value)} bytes on a device; sent, {list(encode(value).from_device)} come to the host")


class Model:
    def __init__(self) -> None:
        self.weights, self.steps, self.away = numpy.arange(4.0), [1], Away(2)


# Who is handed an object gets the others' bytes to read, and writes to nobody's object.
made: dict[str, Any] = {"model": Model(), "mask": numpy.array([True]), "names": {"a", "b"}}
mine, other = shared(made, None), shared(made, None)
mine["model"].steps.append(2)
mine["names"].add("c")
for array in (mine["model"].weights, mine["mask"]):
    try:
        array[0] = 7
    except ValueError as e:
        print(e)
print(made["model"].steps, sorted(other["names"]), mine["model"].steps, sorted(mine["names"]))
print(numpy.shares_memory(mine["model"].weights, made["model"].weights), mine["model"].away is made["model"].away)
mixed = numpy.array([[1], None], dtype=object)
shared(mixed, None)[0].append(2)
print(mixed)
local = [threading.Lock()]
print("what cannot be sent is itself:", shared(local, None) is local)

# An array is handed over as a tensor, as it is sent, where one is wanted.
torch.from_numpy = lambda array: Tensor(f"over memory that is its own: {array.flags.owndata and array.flags.writeable}", device="cpu")
print("an array, wanted as tensor:", shared(numpy.ones(3), Tensor).name)
print("a mask, wanted as tensor:", type(shared(numpy.array([True]), Tensor)).__name__)
