"""Several hosts for one system: network namespaces of this machine, which the driver names in PEERS_HOSTS. The runner is on the first."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

_pairs = [h.split("=", 1) for h in os.environ.get("PEERS_HOSTS", "").split(",") if h]
ADDRESSES = [address for address, _ in _pairs]
SPACES = [space for _, space in _pairs]
STORE = 5 << 29  # bytes of shared memory on each: two and a half times the largest array

_started: list[subprocess.Popen] = []


def start(host: int, *words: str) -> None:
    """Starts a daemon on a host; what it writes goes to a file beside its like."""
    with open(os.path.join(os.environ["PEERS_DIR"], f"host{host}.log"), "ab") as log:
        _started.append(subprocess.Popen(["nsenter", f"--net={SPACES[host]}", "--", *words], stdout=log, stderr=log))


def until(ready: Callable[[], bool]) -> None:
    """Waits for daemons; the driver's time bounds it."""
    while not ready():
        for process in _started:
            if process.poll() is not None:
                raise RuntimeError(f"{process.args[3:]} ended with {process.returncode}: {words()}")  # type: ignore[index]
        time.sleep(0.05)


def done() -> None:
    """Waits for the end of commands that leave daemons behind them. The driver ends these."""
    while _started:
        process = _started.pop()
        if process.wait() != 0:
            raise RuntimeError(f"{process.args[3:]} ended with {process.returncode}: {words()}")  # type: ignore[index]


def words() -> str:
    """The last that the daemons wrote."""
    text = ""
    for host in range(len(ADDRESSES)):
        path = os.path.join(os.environ["PEERS_DIR"], f"host{host}.log")
        if os.path.exists(path):
            with open(path, errors="replace") as log:
                text += log.read()[-500:]
    return text


def stop() -> None:
    """Ends the daemons, the first last."""
    for process in reversed(_started):
        process.terminate()
    for process in reversed(_started):
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # the driver ends all that is left
            process.kill()
