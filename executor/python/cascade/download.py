"""An archive at an address, in the place of a folder: URL or URL#sha256=HASH."""

from __future__ import annotations

import hashlib
import http.client
import re
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from .archive import CHUNK, MAX_BYTES, Package

_FORM = re.compile(
    r"(https?://[^/?#\s]+/(?:[^?#\s]*/)?([^/?#\s]*\.(?:[zZ][iI][pP]|[wW][hH][lL]))(?:\?[^#\s]*)?)(?:#sha256=([0-9a-f]{64}))?"
)
_PATIENCE = 60.0  # seconds in which something must come


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        """What was asked for over TLS stays on TLS."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError("it is redirected from https to http: write the address that is meant")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Download(Package):
    """What is at an address. When that says the hash it is fetched only to be sent: if somebody lacks it."""

    def __init__(self, url: str, name: str, hash: str) -> None:
        self._url, self.name, self.size = url, name, 0
        self._source = re.sub("//[^/@]*@", "//", url.partition("?")[0])  # without what may be secret
        self._file: IO[bytes] | None = None
        self.hash = bytes.fromhex(hash)
        if not hash:
            self.hash = self._fetch()

    @classmethod
    def of(cls, text: str) -> Download | None:
        """That at an address; None for text that is none, of which the controller says what is wrong."""
        form = _FORM.fullmatch(text)
        return cls(form[1], form[2], form[3] or "") if form else None

    def send(self, most: int, piece: Callable[[int, bytes], None]) -> None:
        """Fetches it, if that was not done, and sends it as every package."""
        if self._file is None and (came := self._fetch()) != self.hash:
            raise OSError(
                f"fetch {self._source}: its SHA-256 is {came.hex()}, not the {self.hash.hex()} of the job: "
                "it was changed, or the hash is of another file"
            )
        super().send(most, piece)

    def _archive(self) -> Iterator[bytes]:
        assert self._file is not None
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def _fetch(self) -> bytes:
        """Brings it to a file of this host, and returns its hash."""
        digest, self.size, self._file = hashlib.sha256(), 0, tempfile.TemporaryFile()
        try:
            with urllib.request.build_opener(_Redirects).open(self._url, timeout=_PATIENCE) as answer:
                while chunk := answer.read(CHUNK):
                    digest.update(chunk)
                    self.size += self._file.write(chunk)
                    if self.size > MAX_BYTES:
                        raise ValueError(f"it has more than {MAX_BYTES >> 20} MiB: data belongs beside the code")
                promised = answer.headers.get("Content-Length", "")
                if promised.isdecimal() and int(promised) != self.size:
                    raise ValueError(f"the connection ended after {self.size} of {promised} bytes")
            if not zipfile.is_zipfile(self._file):
                raise ValueError(f"the {self.size} bytes that came are no zip archive (a page that asks to log in, perhaps)")
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise OSError(f"fetch {self._source}: {e}") from e
        return digest.digest()
