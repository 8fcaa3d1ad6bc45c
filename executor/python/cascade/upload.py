"""Files of environments go to the cluster ahead of the job that needs them."""

from __future__ import annotations

from typing import Any

from .archive import Changed, Package
from .packages import seal
from .peer import PIECE, UNAVAILABLE, Peer, RequestError
from .wire import messages as m

_FEATURE = "packages"  # of a controller that keeps them
_SHA256 = b"s"  # before the hash of a blob
_TRIES = 3  # files may change meanwhile, and the controller may start anew


def ship(controller: Peer, document: dict[str, Any], dir: str) -> dict[str, Any]:
    """A job file with packages in the places of paths, when all of them are at the controller.

    Relative paths refer to dir. An older controller keeps no packages: then hosts look for the paths.
    """
    if "environments" not in document or _FEATURE not in controller.features:
        return document
    for left in reversed(range(_TRIES)):
        try:
            environments, packages = seal(document["environments"], dir)
            _upload(controller, packages)
            return {**document, "environments": environments}
        except Changed:
            if left == 0:
                raise
    raise AssertionError("unreachable")


def _upload(controller: Peer, packages: list[Package]) -> None:
    """Sends the packages that the controller lacks; when it returns all of them are there, and wait for the submit."""
    if not packages:
        return
    hashes = [_SHA256 + p.hash for p in packages]
    why = ""
    for _ in range(_TRIES + 1):
        have, _ = controller.ask(lambda req: m.HaveReq(req, hashes))
        if not have.missing:
            return
        if have.why:
            why = f": {have.why}"
            break
        for p, blob in zip(packages, hashes):  # noqa: B905 (of one length)
            if blob in have.missing:
                _send(controller, p, blob)
    raise RequestError(UNAVAILABLE, f"the controller did not keep the files of environments{why}")


def _send(controller: Peer, package: Package, blob: bytes) -> None:
    package.send(PIECE, lambda offset, piece: controller.tell(m.Blob(blob, offset, package.size), piece))
