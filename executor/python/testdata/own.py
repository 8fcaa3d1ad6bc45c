"""Values of a class of the program itself travel as its functions do, handed over within a process or sent."""

import dataclasses
import enum
import sys

import looks

import cascade


class Kind(enum.Enum):
    PLAIN = 1


@dataclasses.dataclass
class Settings:
    n: int
    kind: Kind = Kind.PLAIN
    more: list[int] = dataclasses.field(default_factory=list)

    def twice(self) -> int:
        return 2 * self.n


def make(i: int) -> Settings:
    return Settings(i)


def use(c: Settings, gate: int = 0) -> list[object]:
    c.more.append(1)
    return [c.twice(), len(c.more), isinstance(c, Settings), c.kind is Kind.PLAIN]


def apart(c: Settings, other: Settings) -> list[object]:
    return [c.twice() + other.twice(), len(c.more), type(c) is type(other)]


with cascade.local(store="256MiB", programs=sys.argv[1]) as cluster:
    with cascade.Graph("own") as g:
        made = g.add(make, 3)
        handed = g.add(use, made)  # of one path
        both = g.add(apart, g.add(make, 1), g.add(make, 2))  # of two tasks: sent
        parameter = g.add(use, Settings(5))
        function = g.add(lambda f: f(4).n, make)
        by_name = g.add(looks.name_of, Settings(6))  # a function of a module
    job = cluster.submit(g, made, handed, both, parameter, function, by_name)
    job.wait(progress=False)
    print("handed:", job.result(handed), "sent:", job.result(both))
    print("a parameter:", job.result(parameter), job.result(function), job.result(by_name))
    back = job.result(made, unpickle=True)
    print("a result:", back, isinstance(back, Settings), back.kind is Kind.PLAIN)

sys.modules["cloudpickle"] = None  # as where it is not installed
with cascade.Graph("without") as g:
    try:
        g.add(looks.name_of, Settings(1))
    except TypeError as e:
        print("refused:", e)
