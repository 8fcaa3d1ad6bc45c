"""What the parts of a worker use of it, so that they need not know the whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..wire import codec
from ..wire import messages as m
from ..wire.direct import Watch
from .code import Code
from .queue import Queue, Run


class Host(Protocol):
    """A process that runs tasks for an agent."""

    queue: Queue
    current: Run | None
    welcome: m.Welcome
    code: Code
    watch: Watch  # the links to actors that its runs have made

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while something is sent or the queue changes."""

    def send(self, message: codec.Message) -> None:
        """Sends a message behind everything that was reported before."""

    def add(self, item: m.ReportItem) -> None:
        """Queues something that happened. It leaves with the next flush."""

    def flush(self) -> None:
        """Sends what waits, and takes what came."""

    def wait(self, timeout: int | None = None) -> bool:
        """Waits for messages, and takes them; for the main thread."""

    granted: bool  # an agent granted the run: it releases its core while it waits, and may be repeated

    def own_calls(self, what: str, fresh: bool = False) -> Any:
        """The calls of the task that runs."""

    def mine(self, calls: Any, what: str, do: Callable[[], Any]) -> Any:
        """Does something for calls of the run in the caller's thread, or refuses that."""

    def gone(self, what: str) -> Exception:
        """Why what belongs to a run that has ended cannot be done."""

    def finds(self, module: str) -> bool:
        """Whether hosts of calls find a module by its name, if this process does."""

    def until(self, there: Callable[[], bool], each: Callable[[], None]) -> None:
        """Waits for messages until something is so; each is called before every wait."""

    def in_main(self) -> bool:
        """Whether the caller is the thread in which the task's function runs."""

    def rest(self, seconds: float | None) -> None:
        """Waits for messages in another thread, which has the lock."""

    def soon(self) -> None:
        """Has the helper send the calls that were made."""

    def tell(self) -> None:
        """Has threads that wait look at what is new. The lock is held."""

    def nudge(self) -> None:
        """Has another thread look at what is to be sent. It takes no lock: finalizers call it wherever a thread is."""

    def check(self, run: Run) -> None:
        """Raises Stopped when a run must not go on."""

    def call(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """Calls a function of the task's; it can be interrupted meanwhile."""

    def aside(self, do: Callable[[Run], Any]) -> Any:
        """Does something for the task's function, which is not interrupted meanwhile."""

    def imported(self) -> None:
        """A function's module was imported."""

    def error(self, run: Run, kind: int, message: str, codes: Any = (), stack: str = "") -> m.TaskError:
        """An error with the task, agent and executor."""
