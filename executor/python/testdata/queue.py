"""What a queue of runs gives back, and what lives on a run that goes on.

usage: queue.py
"""

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
    got = queue.take_back(wanted)
    assert got == back, f"taken back of {wanted}: {got}, want {back}"
