"""Reads and writes each message of the transcripts that the package knows, and compares the bytes.

usage: transcripts.py FILE...
"""

import sys

from cascade.wire import codec, columns
from cascade.wire import messages as m

KNOWN = {codec.NUMBERS[c] for c in codec.NUMBERS} - {20, 21}  # of Fetch and Chunk it knows the fields that it needs
PARTLY = {14}  # of Progress too


def entries(path):
    """Yields (line, mark, bytes) of each message."""
    mark, start, data = "", 0, b""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n") + [""]
    for i, line in enumerate(lines, 1):
        if line[:1] == "=":
            data += bytes.fromhex(line[1:])
            continue
        if data:
            yield start, mark, data
            data = b""
        if line[:1] and line[:1] in "><~!#":
            mark, start = line[:1], i


def number(data):
    """The number of a message's type."""
    return data[2] if data[1:2] == b"\xcc" else data[1]


def folded(message):
    """Whether a message came with runs in blocks, which this package does not write."""
    return isinstance(message, m.Dispatch)


def main(paths):
    good = bad = 0
    for path in paths:
        for line, mark, data in entries(path):
            if mark == "!":  # what is wrong with it may go unseen here, but nothing else than Malformed is raised
                try:
                    codec.decode(data)
                except columns.Malformed:
                    pass
                continue
            if mark not in ("<", ">", "~") or number(data) not in KNOWN:
                continue
            message = codec.decode(data)
            if mark != "~" and number(data) not in PARTLY and not folded(message) and codec.encode(message) != data:
                print(f"{path}:{line}: {message} is written as {codec.encode(message).hex()}")
                bad += 1
                continue
            for run in getattr(message, "runs", ()):
                if isinstance(run, m.Run):
                    codec.read_steps(run.steps)
            good += 1
    print(f"{good} good, {bad} bad")
    return 1 if bad or not good else 0


sys.exit(main(sys.argv[1:]))
