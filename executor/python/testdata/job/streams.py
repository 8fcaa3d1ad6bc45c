"""A generator and its consumers, which tell by files in a folder how far they are."""

import os
import time
from collections.abc import Iterator


def made(n: int, mark: str) -> Iterator[int]:
    """Makes the second element when somebody has seen the first: it must have been published at once."""
    for i in range(n):
        for _ in range(60_000):
            if i != 1 or os.path.exists(f"{mark}/seen-0"):
                break
            time.sleep(0.01)
        else:
            raise TimeoutError("the first element was not published while the generator ran")
        open(f"{mark}/made-{i}", "w").close()
        yield i


def look(x: int, mark: str) -> int:
    """How many elements were made that nobody has seen."""
    there = [name.partition("-")[0] for name in os.listdir(mark) if name.startswith("made-")]
    seen = [name for name in os.listdir(mark) if name.startswith("seen-")]  # after the look at those that were made
    open(f"{mark}/seen-{x}", "w").close()
    return len(there) - len(seen)


def most(ahead: list[int], buffer: int) -> str:
    """Those in the buffer, one that waits, and one that is being looked at."""
    return f"{len(ahead)} elements, never more than {buffer} + 2 ahead: {max(ahead) <= buffer + 2}"
