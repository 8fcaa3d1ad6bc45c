"""How Python values become the bytes of datasets and back.

    value ──encode()──▶ Encoded(codec, dtype, shape, parts) ──▶ message or shared memory
    value ◀──decode()── codec, dtype, shape, read-only bytes

What other languages read too: "array" (NumPy arrays of numbers), "raw" (bytes and text), "msgpack" (None, bool, int,
float, lists, dicts with text keys, datetime) and "arrow" (tables of pyarrow, as an Arrow IPC file). For Python tasks only
are "xarray" (DataArray and Dataset: what is said of them as msgpack, with their arrays beside it) and, for everything
else, "pickle5": Python's pickle, with large buffers such as NumPy arrays beside it.

Arrays, Arrow columns and pickled buffers are read where they lie. NumPy and pyarrow are used when they are there.
"""

from __future__ import annotations

import functools
import inspect
import io
import itertools
import math
import pickle
import struct
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack

from . import labelled, references
from .checks import TypeMismatch as TypeMismatch
from .context import CallFailed, Future, Handle
from .references import Found
from .sets import ordered

RAW, ARRAY, MSGPACK, ARROW, XARRAY, PICKLE = "raw", "array", "msgpack", "arrow", "xarray", "pickle5"
TEXT = "text"  # dtype of raw bytes that were a str
BYTES = "bytes"  # dtype of raw bytes that are an argument: its function takes them as bytes
BYTES_LIKE = (bytes, bytearray, memoryview)  # annotations that take the bytes of a dataset
VALUES = "cascade_values"  # the parameter that tells of others: name → codec, dtype, shape, and as base64 the bytes of those that are no input

# dtype of a dataset: NumPy's name, and the format of the struct module.
_DTYPES = {
    "f64": ("<f8", "d"), "f32": ("<f4", "f"), "i64": ("<i8", "q"), "i32": ("<i4", "i"), "i16": ("<i2", "h"),
    "i8": ("|i1", "b"), "u64": ("<u8", "Q"), "u32": ("<u4", "I"), "u16": ("<u2", "H"), "u8": ("|u1", "B"),
    "c64": ("<c8", ""), "c128": ("<c16", ""),
}  # fmt: skip
_NAMES = {numpy_name.lstrip("<|"): name for name, (numpy_name, _) in _DTYPES.items()}
_ALIGN = 64
_NUMBERS = frozenset((int, float, bool, type(None)))


class Encoded:
    """A value as bytes: parts that follow one another."""

    __slots__ = ("array", "by_value", "codec", "dtype", "from_device", "parts", "shape", "size")

    def __init__(self, codec: str, parts: Sequence[Any], dtype: str = "", shape: Sequence[int] = (), array: Any = None) -> None:
        self.codec, self.dtype, self.shape = codec, dtype, shape
        self.array = array  # a NumPy array that is not contiguous, or whose memory may be the dataset's already
        self.parts = parts
        self.by_value = False  # to read it takes cloudpickle
        self.from_device: Sequence[int] = ()  # sizes of what had to be copied from a device
        self.size: int = array.nbytes if array is not None else sum(len(p) for p in parts)

    def write(self, to: memoryview) -> None:
        """Copies the bytes to a buffer of their size."""
        if self.array is not None:
            if self.size:
                numpy = sys.modules["numpy"]
                numpy.copyto(numpy.frombuffer(to, self.array.dtype).reshape(self.array.shape), self.array)
            return
        at = 0
        for part in self.parts:
            to[at : at + len(part)] = part
            at += len(part)

    def tobytes(self) -> bytes:
        """All bytes, for a message."""
        if self.array is not None:
            data: bytes = self.array.tobytes()
            return data
        return b"".join(self.parts)


def _flat(part: Any) -> Any:
    """A buffer as bytes."""
    if isinstance(part, bytes):
        return part
    view = memoryview(part)
    return view.cast("B") if view.nbytes else b""


def encode(value: Any, found: Found | None = None) -> Encoded:
    """The bytes of a value. Data that is in memory already is not copied. Futures in it go to found, and are refused without."""
    if type(value) in _NUMBERS:  # as most results of small functions are
        try:
            return Encoded(MSGPACK, [msgpack.packb(value)])
        except OverflowError:  # an integer of more than 64 bits
            return _pickled(value)
    if type(value) in plain_arrays():
        name = _NAMES.get(value.dtype.str.lstrip("<>|=")) if value.dtype.kind in "fiuc" else None
        if name is not None:
            if value.dtype.byteorder == ">":
                value = value.astype(value.dtype.newbyteorder("<"))
            return Encoded(ARRAY, (), name, value.shape, value)
        return _pickled(value, found)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(value)
    if isinstance(value, str):
        try:
            return Encoded(RAW, [value.encode("utf-8", "surrogateescape")], TEXT)
        except UnicodeEncodeError:  # half a character
            return _pickled(value)
    table = _arrow(value)
    if table is not None:
        return table
    array = array_of(value)
    if array is not None:
        encoded = encode(array)
        if (held := on_device(value)) is not None:
            encoded.from_device = [held]
        return encoded
    labels = _xarray(value)
    if labels is not None:
        return labels
    try:
        return Encoded(MSGPACK, [packed(value, found)])
    except (TypeError, ValueError, OverflowError):  # not one of its types, or an integer of more than 64 bits
        return _pickled(value, found)


def packed(value: Any, found: Found | None = None) -> Any:
    """A value as msgpack; TypeError, ValueError or OverflowError when it is none."""

    def other(part: Any) -> Any:
        return found.extension(part) if found is not None and isinstance(part, Future) else _scalar(part)

    return msgpack.packb(value, default=other, datetime=True, unicode_errors="surrogateescape")


def unpacked(data: Any) -> Any:
    """A value from msgpack, in which a list that is a key stands for a tuple."""
    try:
        return _unpacked(data)
    except TypeMismatch:
        raise
    except TypeError:  # a key that no dict has
        return _unpacked(data, object_pairs_hook=_mapping)
    except OverflowError:
        raise TypeMismatch("a time in it is outside of the years 1 to 9999, which Python has") from None


_unpacked = functools.partial(
    msgpack.unpackb, timestamp=3, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=references.extended
)


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    try:
        return {_key(key): value for key, value in pairs}
    except TypeError:
        raise TypeMismatch("a key of a mapping in it is a mapping, which no dict has: return a list of pairs") from None


def _key(key: Any) -> Any:
    return tuple(_key(part) for part in key) if isinstance(key, list) else key


def numpy_type(name: str) -> Any:
    """A type of NumPy for isinstance; nothing is of it when NumPy is not loaded."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else getattr(numpy, name)


def plain_arrays() -> tuple[Any, ...]:
    """The types of NumPy whose values are sent as arrays: all others (masked, records) have more to them, or are one object."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else (numpy.ndarray, numpy.memmap)


def _bytes(value: Any) -> Encoded:
    if not isinstance(value, memoryview):
        return Encoded(RAW, [_flat(value)])
    content = _flat(value if value.c_contiguous else value.tobytes())
    form = value.format.lstrip("@=<")
    if form in ("B", "c") and value.ndim == 1:
        return Encoded(RAW, [content])
    kind = "i" if form in _SIGNED else "u" if form in _UNSIGNED else "f" if form in ("f", "d") else ""
    if not kind:
        raise TypeMismatch(f"a memoryview of the format {value.format!r} cannot be sent: return bytes, or an array")
    return Encoded(ARRAY, [content], f"{kind}{8 * value.itemsize}", value.shape or ())


_SIGNED, _UNSIGNED = frozenset("bhilqn"), frozenset("BHILQNc")


def _scalar(value: Any) -> Any:
    """NumPy's truth values and numbers, for msgpack. Times are none, although some give a number as their item."""
    if isinstance(value, numpy_type("generic")) and value.dtype.kind in "biuf":
        plain = value.item()
        if isinstance(plain, (bool, int, float)):
            return plain
    raise TypeError(f"{type(value).__name__} is no type of msgpack")


def array_of(value: Any) -> Any:
    """A tensor of torch as a NumPy array over the same memory; None for everything else.

    A tensor that no array can be (sparse, or of a type that NumPy has not, such as bfloat16) is pickled.
    """
    if not is_dense(value):
        return None
    try:
        return value.detach().cpu().resolve_conj().resolve_neg().contiguous().numpy()
    except (TypeError, RuntimeError):
        return None


def is_dense(value: Any) -> bool:
    """Whether a value is a tensor of torch that array_of makes an array of; told without a copy from its device."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.device.type == "meta":
        return False
    try:
        torch.empty(0, dtype=value.dtype).numpy()
    except (TypeError, RuntimeError):
        return False
    return True


_PLAIN = frozenset((bool, int, float, str, bytes, list, tuple, dict, type(None)))
_OF_HOST = frozenset((1, 3, 11))  # DLPack's devices whose memory is the host's: cpu, and what CUDA and ROCm have pinned of it


def on_device(value: Any) -> int | None:
    """How many bytes a value holds in the memory of a device; None for a value of the host.

    Asked are what torch says of a tensor, DLPack, and the interface of CUDA arrays. Values within lists and objects are not
    looked for.
    """
    cls = type(value)
    if cls in _PLAIN:
        return None
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            away = value.device.type not in ("cpu", "meta")
        elif hasattr(cls, "__dlpack_device__"):
            away = value.__dlpack_device__()[0] not in _OF_HOST
        else:
            away = hasattr(cls, "__cuda_array_interface__")
        return int(getattr(value, "nbytes", 0)) if away else None
    except Exception:  # a broken object of a user's is none of a device
        return None


def is_tensor(want: Any) -> bool:
    """Whether a parameter with this annotation takes tensors of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and want is torch.Tensor


def is_table(value: Any) -> bool:
    """Whether a value is a table of pyarrow."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(value, (arrow.Table, arrow.RecordBatch))


def _arrow(value: Any) -> Encoded | None:
    """A table of pyarrow as an Arrow IPC file; None for everything else."""
    if not is_table(value):
        return None
    arrow = sys.modules["pyarrow"]
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_file(sink, value.schema) as writer:
        writer.write(value)
    return Encoded(ARROW, [_flat(sink.getvalue())])


def _xarray(value: Any) -> Encoded | None:
    """An object of xarray as msgpack with its arrays beside it; None for everything else, and for what pickle must send."""
    parts = labelled.split(value)
    if parts is None:
        return None
    head, arrays = parts
    try:
        text = packed(head)
    except (TypeError, ValueError, OverflowError):  # an attribute is something of its own
        return None
    numpy = sys.modules["numpy"]
    return _beside(XARRAY, text, [numpy.ascontiguousarray(a).reshape(-1).view("u1") for a in arrays])


def _relabelled(data: memoryview, want: Any) -> Any:
    numpy = _numpy()
    if numpy is None:
        raise TypeMismatch("it is an object of xarray: add xarray to the environment's packages")
    text, *contents = _apart(data)
    head = unpacked(text)
    arrays = []
    for (dtype, shape), content in zip(labelled.layouts(head), contents, strict=True):
        array = numpy.frombuffer(content, dtype) if len(content) else numpy.empty(0, dtype)
        array.flags.writeable = False
        arrays.append(array.reshape(shape))
    try:
        return labelled.join(head, arrays, want)
    except ImportError:
        raise TypeMismatch("it is an object of xarray: add xarray to the environment's packages") from None


def _is_own(value: Any) -> bool:
    """Whether it is a class or function of `__main__`, which is another program in another process."""
    return isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__"


class _Pickler(pickle.Pickler):
    """A pickler that notes the sizes of what lies on a device: to be pickled it is copied to the host.

    Classes and functions of `__main__` travel by value, as the functions of tasks do, and futures as their numbers.
    """

    def __init__(self, file: Any, buffers: list[pickle.PickleBuffer], found: Found | None) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.from_device: list[int] = []
        self.by_value = False
        self._found = found

    def reducer_override(self, value: Any) -> Any:  # asked once for each object
        if (held := on_device(value)) is not None:
            self.from_device.append(held)
        if self._found is not None and isinstance(value, Future):
            return references.referred, (self._found.place(value),)
        if self._found is not None and isinstance(value, Handle):
            return value._cascade_given()
        if not _is_own(value):
            return NotImplemented
        try:
            import cloudpickle
        except ImportError:
            raise ImportError(
                f"{value.__qualname__} is of __main__, and so must be sent by value: that takes cloudpickle (pip install cloudpickle)"
            ) from None
        self.by_value = True
        return pickle.loads, (cloudpickle.dumps(value),)


def _pickled(value: Any, found: Found | None = None) -> Encoded:
    """Python's pickle with its large buffers beside it."""
    if found is not None:
        found.clear()  # of what was tried before
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    pickler = _Pickler(stream, buffers, found)
    try:
        pickler.dump(ordered(value))
    except (TypeMismatch, CallFailed):  # of a handle in it
        raise
    except Exception as e:
        raise TypeMismatch(
            f"a value of type {type(value).__qualname__} cannot be sent to another process: {e}. Return bytes, text, "
            "numbers, lists, dicts, NumPy arrays, Arrow tables, or what pickle takes"
        ) from e
    encoded = _beside(PICKLE, stream.getvalue(), [b.raw() for b in buffers])
    encoded.dtype = _described(value, 0)[:_MOST_SAID]
    encoded.from_device, encoded.by_value = pickler.from_device, pickler.by_value
    return encoded


_MOST_SAID = 80  # characters of a description
_MOST_SEEN = 1000  # members that are looked at for it
_MOST_LEVELS = 10  # of lists and dicts that lie in each other


def _described(value: Any, level: int) -> str:
    """The type of an object, for messages where its pickle cannot be read."""
    cls = type(value)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    try:
        if cls in plain_arrays():
            return f"array of {value.dtype}"
        if cls is int:
            return "int of more than 64 bits"
        if level == _MOST_LEVELS:
            return name
        for key in itertools.islice(value if isinstance(value, dict) else (), _MOST_SEEN):
            if not _is_plain(key):
                return f"{cls.__name__} with the key {key!r}"
        for member in itertools.islice(_members(value), _MOST_SEEN):
            if not _is_plain(member):
                within = _described(member, level + 1)
                return within if isinstance(member, cls) else f"{cls.__name__} with {within} in it"
    except Exception:  # code of the user's, such as a repr: the value is sent all the same
        pass
    return name


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _is_plain(value: Any) -> bool:
    """Whether msgpack takes a value, by the types of its members up to a number."""
    left = [value]
    for _ in range(_MOST_SEEN):
        if not left:
            return True
        one = left.pop()
        if isinstance(one, (list, tuple, dict)):
            keys = one if isinstance(one, dict) else ()
            left += itertools.islice(itertools.chain(keys, _members(one)), _MOST_SEEN)
        elif one is None or isinstance(one, (str, bytes, bytearray, float)):
            continue
        elif isinstance(one, int):
            if not -(2**63) <= one < 2**64:
                return False
        else:
            try:
                packed(one)
            except (TypeError, ValueError, OverflowError):
                return False
    return True


class _Duplicator(pickle.Pickler):
    """A pickler that leaves out what lies on a device, and classes and functions that travel by value."""

    def __init__(self, file: Any, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.left: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, Future):
            raise TypeMismatch("there is a future in it, and tasks of a graph have none of each other")
        if isinstance(value, Handle):
            raise TypeMismatch("there is a handle of an actor in it, and tasks of a graph have none of each other")
        if on_device(value) is None and not _is_own(value):
            return None
        self.left.append(value)
        return len(self.left) - 1


class _Completer(pickle.Unpickler):
    """It puts in what a _Duplicator left out."""

    def __init__(self, file: Any, buffers: Sequence[Any], left: list[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._left = left

    def persistent_load(self, pid: int) -> Any:
        return self._left[pid]


def duplicate(value: Any) -> Any:
    """An object as pickle would bring it: with its own large buffers, which it may not write to, and itself on its device.

    What pickle does not take could only ever be here, and is returned as it is.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    duplicator = _Duplicator(stream, buffers)
    try:
        duplicator.dump(value)
    except TypeMismatch:
        raise
    except Exception:
        return value
    stream.seek(0)
    return _Completer(stream, [b.raw().toreadonly() for b in buffers], duplicator.left).load()


def _beside(codec: str, text: bytes, buffers: Sequence[Any]) -> Encoded:
    """A text with buffers beside it: their number and sizes, then each from a multiple of 64 on."""
    contents = [memoryview(text), *(_flat(b) for b in buffers)]
    head = struct.pack(f"<{1 + len(contents)}Q", len(contents), *(len(c) for c in contents))
    parts: list[Any] = [head]
    at = len(head)
    for c in contents:
        pad = -at % _ALIGN
        parts += [bytes(pad), c]
        at += pad + len(c)
    return Encoded(codec, parts)


def _apart(data: memoryview) -> list[memoryview]:
    """What _beside wrote: the text and the buffers, where they lie."""
    n = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else 0
    if n < 1 or n > len(data) // 8 - 1:
        raise TypeMismatch("the dataset is cut off, or none of ours")
    sizes = struct.unpack_from(f"<{n}Q", data, 8)
    at, contents = 8 + 8 * n, []
    for size in sizes:
        at += -at % _ALIGN
        contents.append(data[at : at + size])
        at += size
    if at > len(data):
        raise TypeMismatch("the dataset is cut off, or none of ours")
    return contents


def decode(
    codec: str, dtype: str, shape: Sequence[int], data: Any, want: Any = None, refer: Callable[[int], Any] | None = None
) -> Any:
    """A value from its bytes, which are read-only.

    want is the annotation of the parameter that takes it, None for none: bytes and str copy, memoryview and ndarray
    look at any bytes but those of msgpack and of Python's objects. Without it raw bytes are a memoryview, or str when a Python task wrote them as str.
    refer makes the futures in it; without it a future is refused.
    """
    if refer is not None and codec == MSGPACK:
        try:
            return unpacked(data)
        except TypeMismatch:  # there may be a future in it, as in few
            pass
    if refer is not None and codec in (MSGPACK, PICKLE):
        return references.read(refer, lambda: decode(codec, dtype, shape, data, want))
    if codec == ARRAY:
        return _array(dtype, shape, data, want)
    if want in BYTES_LIKE and codec not in (MSGPACK, PICKLE, XARRAY):  # which no reader takes as bytes
        return memoryview(data) if want is memoryview else want(data)
    if codec == RAW:
        if want is str or (want is None and dtype == TEXT):
            return bytes(data).decode("utf-8", "surrogateescape")
        if _is_array(want):
            return _array("u8", (len(data),), data, want)
        return bytes(data) if dtype == BYTES else memoryview(data)
    if codec == MSGPACK:
        return unpacked(data)
    if codec == XARRAY:
        return _relabelled(memoryview(data), want)
    if codec == PICKLE:
        stream, *buffers = _apart(memoryview(data))
        return pickle.loads(stream, buffers=buffers)
    if codec == ARROW:
        return _table(data)
    raise TypeMismatch(
        f"it is of codec {codec!r}, which is not known here: annotate the parameter as memoryview to take its bytes"
    )


def _is_array(want: Any) -> bool:
    return want is not None and (typing.get_origin(want) or want) is numpy_type("ndarray")


def _array(dtype: str, shape: Sequence[int], data: Any, want: Any) -> Any:
    known = _DTYPES.get(dtype)
    if known is None:
        raise TypeMismatch(f"it is an array of {dtype!r}, which is not known here")
    if want in (bytes, bytearray):
        return want(data)
    numpy = None if want is memoryview else _numpy()
    if numpy is None:
        if not known[1]:
            raise TypeMismatch(f"it is an array of {dtype}, which takes NumPy: add numpy to the environment's packages")
        if math.prod(shape) == 0:
            return memoryview(b"").cast(known[1])  # type: ignore[call-overload]
        return memoryview(data).cast("B").cast(known[1], list(shape))  # type: ignore[call-overload]
    if math.prod(shape) == 0:
        array = numpy.empty(shape, known[0])
        array.flags.writeable = False
    else:
        array = numpy.frombuffer(data, known[0])
        if array.size != math.prod(shape):
            raise TypeMismatch(f"an array of {dtype} with shape {list(shape)} does not take {len(data)} bytes")
        array = array.reshape(shape)
    return tensor_of(array) if is_tensor(want) else array


def tensor_of(array: Any) -> Any:
    """A tensor over an array's memory. Tensors cannot be read-only: of an array that is, it is a copy."""
    try:
        return sys.modules["torch"].from_numpy(array if array.flags.writeable else array.copy())
    except TypeError as e:
        raise TypeMismatch(str(e)) from None


def _numpy() -> Any:
    """NumPy, None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _table(data: Any) -> Any:
    try:
        import pyarrow as arrow
    except ImportError:
        raise TypeMismatch(
            "it is an Arrow table: add pyarrow to the environment's packages, or annotate the parameter as memoryview"
        ) from None
    return arrow.ipc.open_file(arrow.py_buffer(data)).read_all()


def hints_of(function: Any) -> dict[str, Any]:
    """The annotations of a function's parameters that decode understands, by name."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # an annotation that cannot be evaluated here is none
        return {}
    known = {}
    for name, hint in hints.items():
        inner = typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else ()
        known[name] = next((h for h in inner if h is not type(None)), hint) if inner else hint
    return known


def element_of(hint: Any) -> Any:
    """What the elements of a list are annotated as."""
    arguments = typing.get_args(hint)
    return arguments[0] if typing.get_origin(hint) in (list, Sequence, tuple) and arguments else None
