"""What the calls of a run say to the agent, which is played here. It prints what is not as it should be."""

import contextlib
import gc
import threading
import types

from cascade import CallFailed, Future, as_completed, context, get, options, wait
from cascade.context import Options
from cascade.executor.calls import Calls
from cascade.executor.outputs import Memory
from cascade.references import Found
from cascade.values import decode, encode
from cascade.wire import codec
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

    granted = True

    def mine(self, calls, what, do):
        return do()

    def gone(self, what):
        return RuntimeError(f"{what}: the task that called it has ended")

    def send(self, message):
        self.sent.append(codec.decode(message) if isinstance(message, bytes) else message)

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
    return m.CallEnds(RUN, [m.CallEnd(ref(number), () if error and not read else [d], error, read=read)])


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


def refused(what, do, want):
    """Compares the error of a function, with its class."""
    try:
        got = f"no error: {do()!r}"
    except Exception as e:
        got = f"{type(e).__name__}: {e}"
    same(what, got, want)


def timeouts():
    """A wait that a caller gives up ends: the run asks for its core, goes on, and may wait again."""
    a = Agent()
    f, g, h = (a.calls.make("operator.neg", Options(), (), {"a": i}) for i in range(3))
    with contextlib.suppress(TimeoutError):
        f.result(timeout=0.001)
    batch, wait, over = a.taken()
    same("given up", (len(batch.items), wait, over), (3, m.CallWait(RUN, 1, [ref(0)], 0, 1), m.CallWait(RUN, 2, (), 0, 0)))
    a.answers = [[end(1), m.CallGo(RUN, 1)], [m.CallGo(RUN, 2)], [m.CallGo(RUN, 3)]]  # the first two are for waits of before
    same("again", (g.result(timeout=60), a.taken()), (5, [m.CallWait(RUN, 3, [ref(1)], 0, 1)]))
    a.answers = [[end(2), m.CallGo(RUN, 4)]]
    same("for ever", (h.result(timeout=float("inf")), a.taken()), (5, [m.CallWait(RUN, 4, [ref(2)], 0, 1)]))
    a.answers = [[end(0), m.CallGo(RUN, 5)]]
    same("for a long time", (f.result(timeout=1e30), a.taken()), (5, [m.CallWait(RUN, 5, [ref(0)], 0, 1)]))


def looks():
    """With no time it only looks: the agent is told of no wait."""
    a = Agent()
    f = a.calls.make("operator.neg", Options(), (), {"a": 1})
    refused("result", lambda: f.result(timeout=0), "TimeoutError: the result of operator.neg: it has not ended within 0 s")
    refused("get", lambda: a.calls.get([f], 0), "TimeoutError: get: 1 of 1 calls have not ended within 0 s")
    refused("as_completed", lambda: list(a.calls.as_completed([f], 0)), "TimeoutError: 1 of 1 calls have not ended within 0 s")
    same("wait", a.calls.wait([f], 1, 0), ([], [f]))
    same("sent", [type(x).__name__ for x in a.taken()], ["Calls"])


def begins():
    """The time of as_completed begins with its call."""
    a = Agent()
    late = a.calls.as_completed([a.calls.make("operator.neg", Options(), (), {"a": 1})], 0.01)
    threading.Event().wait(0.02)
    refused("later", lambda: next(late), "TimeoutError: 1 of 1 calls have not ended within 0.01 s")
    same("sent", [type(x).__name__ for x in a.taken()], ["Calls"])


def foreign():
    """Futures of another task, and what is no future, are refused."""
    a, b = Agent(), Agent()
    f, g = (x.calls.make("operator.neg", Options(), (), {"a": 1}) for x in (a, b))
    for what, do in (("wait", lambda: a.calls.wait([f, g], 1, None)), ("get", lambda: a.calls.get([f, g], None)),
                     ("as_completed", lambda: a.calls.as_completed([f, g], None))):  # fmt: skip
        refused(what, do, f"ValueError: {what}: future 1 is of another task")
    refused("argument", lambda: a.calls.make("operator.neg", Options(), (), {"a": g}), "ValueError: argument a is a future of another task")
    refused("no future", lambda: get([3]), "TypeError: get: it takes futures, not 3")
    refused("one future", lambda: wait(Future(3)), "TypeError: wait: it takes a list of futures, not one")
    same("sent", (a.taken(), b.taken()), ([], []))


def arguments():
    """Numbers that are none are refused, with their names, before anything of them is sent."""
    for what, do in (("wait", wait), ("as_completed", as_completed), ("get", get)):
        for bad in (-1, float("nan"), "5", True):
            refused(what, lambda do=do, bad=bad: do([], timeout=bad), f"ValueError: {what}: timeout={bad!r}: want seconds, 0 or more, or None")
    refused("result", lambda: Future(1).result(-0.5), "ValueError: result: timeout=-0.5: want seconds, 0 or more, or None")
    a = Agent()
    f = a.calls.make("operator.neg", Options(), (), {"a": 1})
    refused("result of a call", lambda: f.result(-1), "ValueError: result: timeout=-1: want seconds, 0 or more, or None")
    refused("k", lambda: wait([], k=1.5), "ValueError: wait: k=1.5: want a whole number, 1 or more")
    for bad, want in (
        ({"retries": -1}, "retries=-1: want a whole number from 0 to 4294967295"),
        ({"retries": 1.5}, "retries=1.5: want a whole number from 0 to 4294967295"),
        ({"timeout": float("inf")}, "timeout=inf: want a number from 0 to 1000000000"),
        ({"timeout": float("nan")}, "timeout=nan: want a number from 0 to 1000000000"),
        ({"timeout": "5s"}, "timeout='5s': want a number from 0 to 1000000000"),
        ({"cpu": None}, "cpu=None: want a number from 0 to 1000000"),
        ({"cpu": 1e9}, "cpu=1000000000.0: want a number from 0 to 1000000"),
        ({"gpu": True}, "gpu=True: want a number from 0 to 1000000"),
        ({"memory": 2**63}, "memory=9223372036854775808: want a whole number from 0 to 9223372036854775807"),
        ({"memory": "9EiB"}, "memory='9EiB': want bytes, or a text such as '64MiB' or '8GiB'"),
        ({"memory": "-1GiB"}, "memory='-1GiB': want bytes, or a text such as '64MiB' or '8GiB'"),
        ({"memory": "9000PiB"}, "memory=10133099161583616000: want a whole number from 0 to 9223372036854775807"),
        ({"priority": 0.5}, "priority=0.5: want a whole number from -9223372036854775808 to 9223372036854775807"),
        ({"here": 1}, "here=1: want True or False"),
        ({"name": 7}, "name=7: want a text"),
        ({"retry_on": "KeyError"}, "retry_on='KeyError': want a class of exceptions, or several"),
        ({"retry_on": [KeyError, int]}, "retry_on=[<class 'KeyError'>, <class 'int'>]: want a class of exceptions, or several"),
        ({"retry_on": 5}, "retry_on=5: want a class of exceptions, or several"),
    ):
        refused(str(bad), lambda bad=bad: options(**bad), f"ValueError: options of a call: {want}")
    for text, n in (("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("2 gb", 2 << 30), ("500", 500), ("8k", 8 << 10), (" 1TiB ", 1 << 40)):
        same(text, options(memory=text).memory, n)
    x, y = Future(1), Future(2)
    refused("twice", lambda: wait([x, y, x]), "ValueError: wait: future 2 is future 0 once more: give each once, as list(dict.fromkeys(futures)) does")
    same("once", wait([x, y]), ([x], [y]))
    same("whole", options(memory=1e9, retries=2.0, retry_on=(e for e in (KeyError, OSError)), cpu=0.5, priority=-3),
         Options(2, (KeyError, OSError), cpu=0.5, memory=10**9, priority=-3))  # fmt: skip


def cancels():
    """A reason may be any object, with any text."""
    a = Agent()
    f = a.calls.make("operator.neg", Options(), (), {"a": 1})
    f.cancel(KeyError("half a character: \ud800"))
    f.cancel("\udcff")
    same("reasons", [x.why for x in a.taken()[1:]], ["'half a character: \\ud800'", "\\udcff"])


def listeners():
    """A listener that goes while others are told takes no end away from them."""
    a = Agent()
    futures = [a.calls.make("operator.neg", Options(), (), {"a": i}) for i in range(2)]
    a.calls.ends(end(0))
    first, second = (a.calls.as_completed(futures, 0) for _ in range(2))
    same("ended", (next(first), next(second)), (futures[0], futures[0]))
    told = a.calls._waiters[0]
    told.ended = lambda state: first.close()  # as the garbage collector does it
    a.calls.ends(end(1))
    same("the other", list(second), [futures[1]])
    same("left", a.calls._waiters, [])


def waits():
    """A wait names few calls; of many it says how many. The first error ends get at once."""
    a = Agent()
    futures = [a.calls.make("operator.neg", Options(), (), {"a": i}) for i in range(20)]
    a.answers = [[end(i) for i in (4, 2, 3)], [m.CallGo(RUN, 1)]]
    done, rest = a.calls.wait(futures, 3, None)
    same("order", ([f.state.ref.number for f in done], len(rest)), ([4, 2, 3], 17))
    same("wait for some of many", a.taken()[1], m.CallWait(RUN, 1, (), 0, 3))
    a.answers = [[end(5, error=m.TaskError(m.TASK, "no good", ["Bad"]))]]  # it does not wait for its core then
    try:
        a.calls.get(rest, None)
        print("get has not failed")
    except CallFailed as e:
        same("get", (str(e), e.codes), ("operator.neg: no good", ("Bad",)))
    same("wait for all", a.taken(), [m.CallWait(RUN, 2, (), 3, 17), m.CallWait(RUN, 3, (), 4, 0)])
    a.answers = [[m.CallGo(RUN, 2)], [m.CallGo(RUN, 4, m.TaskError(m.TASK, "128 tasks wait"))]]
    try:
        futures[0].result()
        print("the wait was not refused")
    except RuntimeError as e:
        same("refused", str(e), "the task may not wait: 128 tasks wait")


def anew():
    """What says that a run is not repeatable goes with its first calls, and with all others."""
    a = Agent()
    a.calls.not_repeatable()
    a.calls.put(1)
    a.calls.flush()
    a.calls.put(2)
    a.calls.flush()
    same("once", [x.once for x in a.taken() if isinstance(x, m.Calls)], [True, True])
    b = Agent()
    b.calls.put(1)
    refused("late", b.calls.not_repeatable, "RuntimeError: not_repeatable: the task has called already: say it before the first call")


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
    del f
    a.calls.flush()
    a.calls.ends(end(0, b"\x06", read=True))  # on its way when the call was dropped
    a.calls.ends(end(0, error=m.TaskError(m.STORE, "no room"), read=True))
    same("kept of what was dropped", a.calls._reads, {})


def values():
    """What a value refers to is told before the value, with the calls or behind them; what is gone is told after both."""
    a = Agent()
    f = a.calls.make("operator.neg", Options(), (), {"a": 1})
    box = a.calls.put({"f": f, "again": [f]})
    g = a.calls.make("operator.neg", Options(), (), {"a": [f, {"box": box}], "b": (f, [box])})
    found = Found()
    encode(["x", {g, f}], found)
    del f, box
    a.calls.listed(2, 3, found)
    calls, drop, listed = a.taken()
    to = [m.Reference(ref(n), 0, 0) for n in range(3)]
    same("refs", list(calls.refs), [m.ItemRefs(1, 0, [to[0]]), m.ItemRefs(2, 1, [to[1]]), m.ItemRefs(2, 3, [to[1]])])
    same("listed", (listed.output, listed.element, sorted(listed.refs)), (2, 3, [to[0], to[2]]))
    same("gone", drop, m.CallDrop(RUN, [ref(1)]))
    del found, g
    gc.collect()
    a.calls.flush()
    same("gone with the value", [sorted(d.refs) for d in a.taken()], [[ref(0), ref(2)]])

    put = encode({"a": [1], "f": (h := a.calls.put(1)), "g": [h]}, found := Found())
    got = decode(put.codec, "", (), put.tobytes(), None, lambda place: a.calls.borrow(m.CallInput(place, m.FROM_INPUT_VALUE, input=4)))
    same("one future", (got["f"] is got["g"][0], len(found.futures), put.codec), (True, 1, "msgpack"))
    a.calls.flush()
    item = a.taken()[0].items[1]
    same("borrowed", (item.kind, [(x.source, x.port, x.input) for x in item.inputs]), (0, [(m.FROM_INPUT_VALUE, 0, 4)]))
    same("as Go has it", encode([h] * 2, Found()).tobytes(), b"\x92\xd4\x52\0\xd4\x52\0")
    refused("no one refers", lambda: decode(put.codec, "", (), put.tobytes()),
            "TypeMismatch: there is a future in it, which only called tasks and the program of their session can read")  # fmt: skip
    refused("another task's", lambda: Agent().calls.put([h]), "TypeMismatch: there is a future of another task or session in it")
    unpacked = decode(*(lambda e: (e.codec, "", (), e.tobytes()))(encode([h] * 300 + [Future(i) for i in range(200)], Found())), None, int)
    same("numbers", (unpacked[0], unpacked[299], unpacked[300], unpacked[-1]), (0, 0, 1, 200))


for test in (batches, timeouts, looks, begins, foreign, arguments, cancels, listeners, waits, anew, reads, values):
    test()
