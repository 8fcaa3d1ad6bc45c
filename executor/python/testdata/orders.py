"""Prints a hash of the encoding of values, and whether it says the same whatever way they were made, and what they were."""

import datetime
import hashlib
from http import HTTPStatus

from cascade.values import decode, encode


words = [f"word{i}" for i in range(200)]
shared = set(words)
cycle = [frozenset(words)]
cycle.append(cycle)
pairs = [(w, frozenset((w, i))) for i, w in enumerate(words)]


def hashed(value):
    return hashlib.sha256(encode(value).tobytes()).hexdigest()[:16]


def back(value):
    e = encode(value)
    return decode(e.codec, e.dtype, e.shape, memoryview(e.tobytes()))


def show(what, *equal):
    same = len({hashed(v) for v in equal}) == 1 and all(back(v) == v and type(back(v)) is type(v) for v in equal)
    print(what, hashed(equal[0]), "right" if same else "WRONG")


def sets(kind, members):
    """The same set, made in different ways."""
    grown = set()
    for m in reversed(members):
        grown.add(m)
    grown.update(range(10_000))
    grown.difference_update(set(range(10_000)) - set(members))
    return kind(members), kind(grown)


show("texts", *sets(set, words))
show("frozen", *sets(frozenset, words))
show("numbers", *sets(set, [3, -1, 2.5, 2**70, 10_000_000]))
show("mixed", *sets(set, [None, "a", b"a", 7, 1.5, (1, "x"), HTTPStatus.OK, HTTPStatus.GONE, datetime.date(2026, 11, 26), frozenset("abc")]))
show("pairs", *sets(set, pairs))
show("in others", *({"a": [s, (s,)], "b": {frozenset(words): 1}} for s in sets(set, words)))
print("a list that holds itself", hashed(cycle), "right" if back(cycle)[1][0] == cycle[0] else "WRONG")
twice = back([shared, shared])
print("one set twice", hashed([shared, shared]), "right" if twice[0] is twice[1] and twice[0] == shared else "WRONG")
show("a dict", {"b": 1, "a": 2})
print("its order", "right" if list(back({"b": 1, "a": 2})) == ["b", "a"] and hashed({"b": 1, "a": 2}) != hashed({"a": 2, "b": 1}) else "WRONG")
deep = [shared]
for _ in range(100):
    deep = [deep]
show("deep", deep)
