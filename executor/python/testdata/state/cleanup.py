"""Tasks that are cancelled, and clean up."""

import pathlib
import time

import cascade


def wait(mark):
    """Says that it waits, and does."""
    with open(pathlib.Path(mark, "waits"), "wb", buffering=0) as f:
        f.write(b"x")
    time.sleep(60)


def clean(mark, how):
    """Takes longer to clean up than interrupts are apart."""
    try:
        wait(mark)
    except cascade.Cancelled:
        if how == "except":
            took(mark, how)
        raise
    finally:
        if how == "finally":
            took(mark, how)


def took(mark, how):
    """Computes and waits for half a second, in a function of its own that has exceptions of its own."""
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
            raise KeyError("one of its own")
        except KeyError:
            pass
    pathlib.Path(mark, how).write_text("cleaned up")


def swallow(mark, how):
    """Ends only when it is interrupted again: the first it takes for an error of what it tries."""
    for n in range(3):
        try:
            wait(mark)
        except BaseException:
            pathlib.Path(mark, f"{how}{n}").write_text("swallowed")


def keep(mark, how):
    """As swallow, but what it has caught stays somewhere."""
    kept = []
    for n in range(3):
        try:
            wait(mark)
        except BaseException as e:
            kept.append(e)
            pathlib.Path(mark, f"{how}{n}").write_text("kept")
