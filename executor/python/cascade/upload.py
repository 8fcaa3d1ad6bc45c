"""Files of environments and inputs go to the cluster ahead of the job that needs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from . import inputs, packages
from .archive import Changed, Package
from .peer import PIECE, UNAVAILABLE, Peer, RequestError
from .wire import messages as m

_FEATURE = "packages"  # of a controller that keeps them
_PLATFORMS = "platforms"  # of one that knows binaries for platforms
_SHA256 = b"s"  # before the hash of a blob
_REMEMBERED = 10_000  # packages
_TRIES = 3  # files may change meanwhile, and the controller may start anew
_shipping = threading.Lock()  # of all threads one packs and sends: the next finds that it need not


def _forked() -> None:
    """A child that was forked has no thread that would release it."""
    global _shipping
    _shipping = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def ship(controller: Peer, document: dict[str, Any], dir: str, here: Callable[[], str], sent: set[bytes]) -> dict[str, Any]:
    """A job file with packages in the places of paths and hashes of inputs, when all of them are at the controller.

    Relative paths refer to dir; here is as for inputs.seal. sent is what was at the controller lately: it is not asked for
    that again, and what it says it has is added. An older controller keeps no packages: then hosts look for the paths.
    """
    if not document.keys() & {"environments", "inputs"} or _FEATURE not in controller.features:
        return document
    with _shipping:
        return _ship(controller, document, dir, here, sent)


def _ship(controller: Peer, document: dict[str, Any], dir: str, here: Callable[[], str], sent: set[bytes]) -> dict[str, Any]:
    for left in reversed(range(_TRIES)):
        try:
            sealed, files = dict(document), list[Package]()
            if "environments" in document:
                sealed["environments"], found = packages.seal(document["environments"], dir, _PLATFORMS in controller.features)
                files += found
            if "inputs" in document:
                sealed["inputs"], found = inputs.seal(document["inputs"], dir, here)
                files += found
            _upload(controller, files, sent)
            return sealed
        except Changed:
            packages.forget()
            if left == 0:
                raise
    raise AssertionError("unreachable")


def _upload(controller: Peer, files: list[Package], sent: set[bytes]) -> None:
    """Sends the packages that the controller lacks; when it returns all of them are there, and wait for the submit."""
    hashes = [_SHA256 + p.hash for p in files]
    if sent.issuperset(hashes):
        return
    why = ""
    for _ in range(_TRIES + 1):
        have, _ = controller.ask(lambda req: m.HaveReq(req, hashes))
        if not have.missing:
            if len(sent) > _REMEMBERED:
                sent.clear()
            sent.update(hashes)
            return
        if have.why:
            why = f": {have.why}"
            break
        for p, blob in zip(files, hashes):  # noqa: B905 (of one length)
            if blob in have.missing:
                _send(controller, p, blob)
    raise RequestError(UNAVAILABLE, f"the controller did not keep the files of the job{why}")


def _send(controller: Peer, package: Package, blob: bytes) -> None:
    package.send(PIECE, lambda offset, piece: controller.tell(m.Blob(blob, offset, package.size), piece))
