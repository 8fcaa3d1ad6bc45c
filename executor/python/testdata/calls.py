"""What the calls of a run say to the agent, which is played here. It prints what is not as it should be."""

import contextlib
import gc
import threading
import types

from cascade import CallFailed
from cascade.context import Options
from cascade.executor.calls import Calls
from cascade.executor.outputs import Memory
from cascade.wire import messages as m

RUN = 7


class Agent:
    """A worker whose agent answers as a test says."""

    def __init__(self):
        self.lock = threading.RLock()
        self.sent, self.answers, self.woken = [], [], 0
        self.welcome = m.Welcome(inline_max=1000, calls=True)
        self.current = types.SimpleNamespace(id=RUN, told=False, rooms={}, regions=[], maps=[], bytes_in=0, stopped=None,
                                             kind=types.SimpleNamespace(m=m.Kind()))  # fmt: skip
        self.calls = Calls(self, Memory(self), self.current)

    def send(self, message):
        self.sent.append(message)

    def in_main(self):
        return True

    def soon(self):
        self.woken += 1

    def flush(self):
        pass

    def check(self, run):
        pass

    def aside(self, do):
        return do(self.current)

    def wait(self, timeout=None):
        """Takes the next answers; without one the time is up, as far as a caller has some."""
        for answer in self.answers.pop(0) if self.answers else ():
            self.calls.ends(answer) if isinstance(answer, m.CallEnds) else self.calls.go(answer)
        if timeout is None and not self.sent:
            raise AssertionError("it waits for ever")

    def taken(self):
        sent, self.sent = self.sent, []
        return sent


def ref(number):
    return m.CallRef(0, number)


def end(number, data=b"\x05", error=None, read=False, place=None):
    d = m.Desc(m.Ref(number + 1), 1, "msgpack", size=len(data), place=place or m.Place(m.INLINE, data))
    return m.CallEnds(RUN, [m.CallEnd(ref(number), () if error else [d], error, read=read)])


def same(what, got, want):
    if got != want:
        print(f"{what}: got\n  {got}\nwant\n  {want}")


def batches():
    """Calls go together, with each kind once; the futures that are gone after them."""
    a = Agent()
    one = a.calls.make("operator.neg", Options(), (), {"a": 1})
    two = a.calls.make("operator.neg", Options(), (), {"a": one})
    value = a.calls.put(9)
    lists = a.calls.make("operator.neg", Options(), (), {"a": [two, 3, value]})
    same("sent before something is asked for", (a.sent, a.woken), ([], 1))
    del two
    a.answers = [[end(3)], [m.CallGo(RUN, 1)]]
    same("result", lists.result(), 5)
    calls, drop, wait = a.taken()
    same("kinds", [(k.id, k.function, list(k.inputs)) for k in calls.kinds],
         [(1, "operator.neg", [m.KindIn("a")]), (2, "operator.neg", [m.KindIn("a", True)])])  # fmt: skip
    same("items", [(i.ref, i.kind, [(x.source, x.ref.number) for x in i.inputs]) for i in calls.items],
         [(ref(0), 1, [(0, 0)]), (ref(1), 1, [(1, 0)]), (ref(2), 0, [(0, 0)]),
          (ref(3), 2, [(1, 1), (0, 0), (1, 2)])])  # fmt: skip
    same("drop", drop, m.CallDrop(RUN, [ref(1)]))
    same("wait", wait, m.CallWait(RUN, 1, [ref(3)], 0, 1))
    same("a put value", value.result(), 9)
    del one, value, lists
    gc.collect()
    a.calls.flush()
    same("drops", a.taken(), [m.CallDrop(RUN, [ref(0), ref(2), ref(3)])])


def timeouts():
    """A wait that a caller has given up is answered later; there is never a second one beside it."""
    a = Agent()
    f, g = (a.calls.make("operator.neg", Options(), (), {"a": i}) for i in range(2))
    with contextlib.suppress(TimeoutError):
        f.result(timeout=0)
    same("first", [type(x).__name__ for x in a.taken()], ["Calls", "CallWait"])
    a.answers = [[end(1)]]
    same("beside it", (g.result(timeout=60), a.taken()), (5, []))
    a.sent = [None]  # it may wait
    a.answers = [[m.CallGo(RUN, 1)], [end(0)], [m.CallGo(RUN, 2)]]
    same("again", (f.result(), a.taken()[1:]), (5, [m.CallWait(RUN, 2, [ref(0)], 0, 1)]))


def waits():
    """A wait names few calls; of many it says how many. The first error ends get at once."""
    a = Agent()
    futures = [a.calls.make("operator.neg", Options(), (), {"a": i}) for i in range(20)]
    a.answers = [[end(i) for i in (4, 2, 3)], [m.CallGo(RUN, 1)]]
    done, rest = a.calls.wait(futures, 3, None)
    same("order", ([f.state.ref.number for f in done], len(rest)), ([4, 2, 3], 17))
    same("wait for some of many", a.taken()[1], m.CallWait(RUN, 1, (), 0, 3))
    a.answers = [[end(5, error=m.TaskError(m.TASK, "no good", ["Bad"]))]]
    try:
        a.calls.get(rest, None)
        print("get has not failed")
    except CallFailed as e:
        same("get", (str(e), e.codes), ("operator.neg: no good", ("Bad",)))
    same("wait for all", a.taken(), [m.CallWait(RUN, 2, (), 3, 17)])
    a.sent, a.answers = [None], [[m.CallGo(RUN, 2)], [m.CallGo(RUN, 3, m.TaskError(m.TASK, "128 tasks wait"))]]
    try:
        futures[0].result()
        print("the wait was not refused")
    except RuntimeError as e:
        same("refused", str(e), "the task may not wait: 128 tasks wait")


def reads():
    """What is not in the message is asked for, once; what cannot be had may be asked for again."""
    a = Agent()
    f = a.calls.make("operator.neg", Options(), (), {"a": 1})
    away = m.Place(m.AGENT)
    lost = end(0, error=m.TaskError(m.STORE, "no room"), read=True)
    a.answers = [[end(0, place=away)], [m.CallGo(RUN, 1)], [lost], [m.CallGo(RUN, 2)]]
    try:
        f.result()
        print("it was read")
    except CallFailed as e:
        same("lost", str(e), "the result of operator.neg: no room")
    a.taken()
    a.answers = [[end(0, b"\x06", read=True)], [m.CallGo(RUN, 3)]]
    same("value", (f.result(), f.result()), (6, 6))
    same("read", a.taken(), [m.CallRead(RUN, ref(0), 0, 0), m.CallWait(RUN, 3, (), 2, 1)])


for test in (batches, timeouts, waits, reads):
    test()
