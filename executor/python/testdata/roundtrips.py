"""Values of all kinds as Python sends them, hands them over, and reads them when Go has sent them.

Standard input: what Go has sent, by name. Standard output: each kind's value, its dataset, and what comes of it in Python.
"""

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import sys
import uuid

import msgpack
import numpy as np

from cascade.executor.outputs import shared
from cascade.values import TypeMismatch, decode, encode


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Word(str, enum.Enum):
    YES = "yes"


Point = collections.namedtuple("Point", "x y")


class Metres(float):
    pass


UTC = dt.timezone.utc
KINDS = {
    "None": None, "True": True, "0": 0, "-1": -1, "2**63-1": 2**63 - 1, "2**64-1": 2**64 - 1, "2**64": 2**64, "-2**63-1": -(2**63) - 1,
    "1.5": 1.5, "3.0": 3.0, "-0.0": -0.0, "inf": float("inf"), "nan": float("nan"), "1e300": 1e300, "1j": 1j,
    "text": "grün", "no text": "", "half a character": "\ud800", "name of bytes": "a\udcff", "bytes": b"\x00\xff", "bytearray": bytearray(b"ab"),
    "list": [1, "a", None, 2.5], "tuple": (1, (2,)), "names of bytes": ["a\udcff"], "set": {1}, "range": range(3), "Ellipsis": ..., "NotImplemented": NotImplemented,
    "keys of text": {"b": 1, "a": {"c": 2}}, "keys of int": {1: "a", -2: "b"}, "keys of float": {0.5: 1, 1e6: 2}, "keys of tuple": {(1, (2, "x")): "a"},
    "keys of two kinds": {1: "a", "1": "b"}, "key None": {None: 1}, "key True": {True: 1}, "key bytes": {b"a": 1}, "key time": {dt.datetime(2024, 2, 29, tzinfo=UTC): 1},
    "key enum": {Colour.RED: 1}, "key frozenset": {frozenset([1]): 1}, "keys deep": [{"a": {(1,): 2}}],
    "OrderedDict": collections.OrderedDict(a=1), "defaultdict": collections.defaultdict(list, a=[1]), "Counter": collections.Counter("aab"), "namedtuple": Point(1, 2.5),
    "enum": Colour.RED, "IntEnum": Level.HIGH, "text enum": Word.YES, "float's subclass": Metres(2.5),
    "time": dt.datetime(2024, 2, 29, 12, 30, 15, 250001, tzinfo=UTC), "time elsewhere": dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "time without zone": dt.datetime(2024, 2, 29), "date": dt.date(2024, 2, 29), "timedelta": dt.timedelta(seconds=90), "Path": pathlib.PurePosixPath("/a"),
    "Decimal": decimal.Decimal("3.10"), "Fraction": fractions.Fraction(1, 3), "UUID": uuid.UUID(int=1), "array.array": array.array("d", [1.5]),
    "memoryview of int": memoryview(np.arange(3)), "memoryview of bool": memoryview(np.array([True])), "memoryview of bytes": memoryview(b"ab")[::-1], "memoryview 2-D": memoryview(np.ones((2, 2), "u1")),
    "bool_": np.bool_(True), "int8": np.int8(-3), "uint64": np.uint64(2**64 - 1), "float32": np.float32(0.1), "longdouble": np.longdouble(1) / 3, "str_": np.str_("a"), "bytes_": np.bytes_(b"a"),
    "datetime64[D]": np.datetime64("2024-02-29"), "datetime64[ns]": np.datetime64("2024-02-29T00:00:00", "ns"), "timedelta64[ns]": np.timedelta64(5, "ns"), "NaT": np.datetime64("NaT"),
    "ns in a list": [np.timedelta64(5, "ns")], "int8 in a list": [np.int8(-3)], "float32 as a key": {np.float32(0.5): 1},
    "f8": np.array([1.5, -0.0, np.inf]), "f4 2-D": np.ones((2, 3), "f4"), "i8 big-endian": np.arange(3, dtype=">i8"), "c16": np.array([1 + 2j]), "0-d": np.array(7.5), "no rows": np.empty((0, 3), "u2"),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)), "strided": np.arange(6)[::2], "bool array": np.array([True, False]), "datetime64 array": np.array(["2024-02-29", "NaT"], "M8[D]"),
    "f2": np.array([0.5], "f2"), "text array": np.array(["ä", ""]), "object array": np.array([1, None], object), "records": np.array([(1, 2.5)], [("i", "i4"), ("f", "f8")]), "recarray": np.rec.array([(1,)], dtype=[("i", "i4")]),
    "masked": np.ma.array([1.0, 2.0], mask=[True, False]), "np.ma.masked": np.ma.masked, "matrix": np.matrix([[1]]), "arrays in a dict": {"a": np.arange(2)}, "set in a list": [{1}],
}  # fmt: skip


def told(value: object) -> str:
    if isinstance(value, np.ndarray) and value is not np.ma.masked:
        return f"{type(value).__name__} {value.dtype} {value.shape} {value.tolist()}"
    if isinstance(value, memoryview):
        return f"memoryview {value.format} {value.tolist()}"
    if isinstance(value, pathlib.PurePath):
        return str(value)
    return f"{type(value).__name__} {value!r}"


def came(value: object, got: object) -> str:
    """What has become of a value: = for the same, else what it is."""
    return "=" if told(value) == told(got) and (not isinstance(value, enum.Enum) or type(value) is type(got)) else told(got)


def refused(make: object, *args: object) -> object:
    try:
        return make(*args)  # type: ignore[operator]
    except (TypeMismatch, OSError, ValueError) as e:
        return e


made = []
for name, value in KINDS.items():
    encoded = refused(encode, value)
    row: dict[str, object] = {"Name": name, "Value": told(value)}
    if isinstance(encoded, Exception):
        row["Refused"] = str(encoded)
    else:
        data = encoded.tobytes()
        row |= {"Codec": encoded.codec, "DType": encoded.dtype, "Shape": list(encoded.shape), "Data": data}
        row["Sent"] = came(value, decode(encoded.codec, encoded.dtype, encoded.shape, data))
        for want in (bytes, bytearray, memoryview, str, np.ndarray):  # annotations of the parameter
            outcomes = [refused(decode, encoded.codec, encoded.dtype, encoded.shape, data, want), refused(shared, value, want)]
            sent, handed = (str(o) if isinstance(o, Exception) else told(o) for o in outcomes)
            if sent != handed:
                row["Differs"] = f"{row.get('Differs', '')}\n  as {want.__name__}: sent {sent[:60]}, handed {handed[:60]}"
    handed = refused(shared, value, None)
    row["Handed"] = str(handed) if isinstance(handed, Exception) else came(value, handed)
    made.append(row)

seen = {}
for name, (codec, dtype, shape, data) in msgpack.unpackb(sys.stdin.buffer.read()).items():
    got = refused(decode, codec, dtype, shape or [], data)
    seen[name] = str(got) if isinstance(got, Exception) else told(got)
sys.stdout.buffer.write(msgpack.packb({"made": made, "seen": seen}, unicode_errors="backslashreplace"))
