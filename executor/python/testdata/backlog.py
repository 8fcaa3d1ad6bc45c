"""What a queue of runs gives back, what lives on a run that goes on, and which process has outgrown its runs.

usage: backlog.py
"""

from cascade.executor.leftover import Leftover
from cascade.executor.queue import PreparedKind, Queue
from cascade.wire import messages as m


def live(of):
    """The inputs of a run that reads the value of another."""
    return (m.RunInput([m.Desc(m.Ref(of, 0), 1, place=m.Place(m.LIVE, run=of))]),)


kinds = {1: PreparedKind(m.Kind(1))}
queue = Queue()
for run in (m.Run(1, 1, 1, 1), m.Run(2, 1, 2, 1), m.Run(3, 1, 3, 1, inputs=live(1)), m.Run(4, 1, 4, 1, inputs=live(3)), m.Run(5, 1, 5, 1)):
    queue.push(run, kinds)
assert queue.pop([]).id == 1  # it has started
for wanted, back in (([1, 3, 4], []), ([1, 3, 4, 5], [5]), ([4], [4]), ([2, 3], [2, 3])):
    got = queue.reclaim(wanted)
    assert got == back, f"taken back of {wanted}: {got}, want {back}"

queue = Queue()
for run in (m.Run(1, 1, 1, 1), m.Run(2, 1, 2, 1), m.Run(3, 1, 3, 1, inputs=live(1)), m.Run(4, 1, 4, 1)):
    queue.push(run, kinds)
assert queue.pop([]).id == 1
assert queue.whole() == [2, 4], queue.whole()  # 3 lives on a value that is here

GIB = 1 << 30
for what, rests, after, leaves in (
    ("a leak", [1, 1.3, 1.6, 1.9, 2.2], 2.2, True),
    ("that the collector frees", [1, 1.3, 1.6, 1.9, 2.2], 1.5, False),
    ("a model that is loaded once", [0.1, 4, 4, 4.001, 4], 4, False),
    ("as much as it was at first", [4, 4.9, 4.2, 4.9, 4.9, 4.9], 4.9, False),
    ("a leak in small steps", [1 + i / 60 for i in range(62)], 2.02, True),
    ("little", [0.1] * 1000, 0.1, False),
):
    leftover = Leftover(lambda: int(after * GIB))  # noqa: B023 (called at once)
    for rest in rests:
        leftover.look(int(rest * GIB))
    assert leftover.leaving == leaves, what
