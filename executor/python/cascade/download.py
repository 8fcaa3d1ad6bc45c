"""An archive at an address, in the place of a folder: URL or URL#sha256=HASH."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from .archive import CHUNK, MAX_BYTES, Package

_FORM = re.compile(
    r"(https?://[^/?#\s]+/(?:[^?#\s]*/)?([^/?#\s]*\.(?:[zZ][iI][pP]|[wW][hH][lL]))(?:\?[^#\s]*)?)(?:#sha256=([0-9a-f]{64}))?"
)
_SILENCE = 60.0  # seconds in which something must come
_PAUSE = 1.0  # seconds before the second try, which double
_TRIES = 4
_LIMIT = 3600.0  # seconds of all tries together


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        """What was asked for over TLS stays on TLS, and a password stays with its server."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError("it is redirected from https to http: write the address that is meant")
        to = super().redirect_request(req, fp, code, msg, headers, newurl)
        if to is not None and to.host != req.host:
            to.remove_header("Authorization")
        return to


class _Lasting(Exception):
    """What another try does not mend."""


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
        """Brings it to a file of this host, and returns its hash. What may pass is tried again."""
        ends, pause = time.monotonic() + _LIMIT, _PAUSE
        for n in range(1, _TRIES + 1):
            try:
                return self._once(ends)
            except (OSError, http.client.HTTPException, _Lasting) as e:
                why = f"fetch {self._source}: {'' if n < _TRIES else f'tried {n} times: '}{_told(e)}"
                if n == _TRIES or not _passes(e) or time.monotonic() + pause > ends:
                    raise OSError(why) from e
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def _once(self, ends: float) -> bytes:
        digest, self.size, self._file = hashlib.sha256(), 0, tempfile.TemporaryFile()
        with urllib.request.build_opener(_Redirects).open(_request(self._url), timeout=_SILENCE) as answer:
            promised = answer.headers.get("Content-Length", "")
            while chunk := answer.read1(CHUNK):
                digest.update(chunk)
                self.size += self._file.write(chunk)
                if self.size > MAX_BYTES or promised.isdecimal() and int(promised) > MAX_BYTES:
                    raise _Lasting(f"it has more than {MAX_BYTES >> 20} MiB: data belongs beside the code")
                if time.monotonic() > ends:
                    raise _Lasting(f"it took longer than {_LIMIT:g} s")
            if promised.isdecimal() and int(promised) != self.size:
                raise OSError(f"the connection ended after {self.size} of {promised} bytes")
        if not zipfile.is_zipfile(self._file):
            raise _Lasting(f"the {self.size} bytes that came are no zip archive (a page that asks to log in, perhaps)")
        return digest.digest()


def _request(url: str) -> urllib.request.Request:
    """A request whose user and password travel in a header, as urllib does not look for them in an address."""
    parts = urllib.parse.urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=host)))
    if at:
        request.add_header("Authorization", "Basic " + base64.b64encode(urllib.parse.unquote_to_bytes(user)).decode())
    return request


def _passes(e: BaseException) -> bool:
    """Whether the same may succeed later."""
    if isinstance(e, urllib.error.HTTPError):
        return e.code in (408, 425, 429) or (e.code >= 500 and e.code != 501)
    if isinstance(e, urllib.error.URLError):
        why = e.reason
        unknown = isinstance(why, socket.gaierror) and why.errno == socket.EAI_NONAME
        return isinstance(why, OSError) and not unknown and not isinstance(why, ssl.SSLCertVerificationError)
    return not isinstance(e, _Lasting)


def _told(e: BaseException) -> str:
    """An error in words, of a server in its own, without what may be secret."""
    text = str(e) or type(e).__name__
    if isinstance(e, urllib.error.URLError) and not isinstance(e, urllib.error.HTTPError):
        text = str(e.reason)
    if isinstance(e, urllib.error.HTTPError):
        text = f"the server says {e.code} {e.msg}"
        if e.headers.get_content_type() == "text/plain":
            try:
                line = e.read(200).decode("utf-8", "replace").partition("\n")[0].strip()
            except (OSError, http.client.HTTPException):  # it says no more
                line = ""
            text += f": {line}" if line else ""
    return re.sub(r"\?[^\s\"']+", "?***", re.sub(r"(://)[^/\s\"']+@", r"\1***@", text))
