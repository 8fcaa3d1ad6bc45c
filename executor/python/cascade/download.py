"""An archive at an address, in the place of a folder: URL or URL#sha256=HASH."""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from .address import Address, hide
from .archive import CHUNK, MAX_BYTES, Package

_FORM = re.compile(
    r"(https?://[^/?#\s]+/(?:[^?#\s]*/)?([^/?#\s]*\.(?:[zZ][iI][pP]|[wW][hH][lL]))(?:\?[^#\s]*)?)(?:#sha256=([0-9a-f]{64}))?"
)
_SILENCE = 60.0  # seconds in which something must come
_PAUSE = 1.0  # seconds before the second try, which double
_TRIES = 4
_REDIRECTS = 10  # of one try
_LIMIT = 3600.0  # seconds of all tries together, looked at before a try and when some of the archive has come
_READ = 8192  # bytes of an answer that brings no archive
_TOLD = 200  # characters of it that an error repeats


class _Redirects(urllib.request.HTTPRedirectHandler):
    """What was asked for over TLS stays on TLS, and a password stays with its server."""

    max_repeats = max_redirections = _REDIRECTS

    def __init__(self, asked: list[Address]) -> None:
        self._asked = asked

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        """A new request, as the one before may have headers for its own server and proxy only."""
        fp.close()  # what else is said with it is not awaited
        there, here = Address.of(newurl), self._asked[-1]
        if len(self._asked) >= _REDIRECTS:
            raise _Lasting(f"it was redirected {_REDIRECTS} times")
        if there is None or not there.host:
            raise _Lasting("it is redirected to something that is no http address")
        if here.scheme == "https" and there.scheme != "https":
            raise _Lasting("it is redirected from https to http: write the address that is meant")
        if there.user is None and there.host == here.host:
            there = there._replace(user=here.user)
        self._asked.append(there)
        return there.request()


class _Lasting(Exception):
    """An error that another try does not repair."""


class Download(Package):
    """What is at an address. When that says the hash it is fetched only to be sent: if the controller lacks it."""

    def __init__(self, url: Address, name: str, hash: str) -> None:
        self._url, self.name, self.size = url, name, 0
        self._source = self._url.plain
        self._file: IO[bytes] | None = None
        self.hash = bytes.fromhex(hash)
        if not hash:
            self.hash = self._fetch()

    @classmethod
    def of(cls, text: str) -> Download | None:
        """That at an address; None for text that is none, of which the controller says what is wrong."""
        form = _FORM.fullmatch(text)
        url = Address.of(form[1]) if form else None
        return cls(url, form[2], form[3] or "") if form and url else None

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
        """Brings it to a file of this host, and returns its hash. Temporary errors are retried."""
        ends, pause = time.monotonic() + _LIMIT, _PAUSE
        for n in range(1, _TRIES + 1):
            asked = [self._url]
            try:
                return self._once(asked, ends)
            except (OSError, ValueError, http.client.HTTPException, _Lasting) as e:
                passes = _passes(e)
                tried = f"tried {n} times: " if passes and n == _TRIES else ""
                why = f"fetch {self._source}: {tried}{_told(e, asked)}"
                if n == _TRIES or not passes or time.monotonic() + pause > ends:
                    raise OSError(why) from e
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def _once(self, asked: list[Address], ends: float) -> bytes:
        digest, self.size, self._file = hashlib.sha256(), 0, tempfile.TemporaryFile()
        with urllib.request.build_opener(_Redirects(asked)).open(self._url.request(), timeout=_SILENCE) as answer:
            length = answer.headers.get("Content-Length", "")
            promised = int(length[:20]) if length.isdecimal() else -1  # more digits are too many bytes in any case
            while promised <= MAX_BYTES and (chunk := answer.read1(CHUNK)):
                digest.update(chunk)
                self.size += self._file.write(chunk)
                if self.size > MAX_BYTES:
                    break
                if time.monotonic() > ends:
                    raise _Lasting(f"it took longer than {_LIMIT:g} s")
            if max(self.size, promised) > MAX_BYTES:
                raise _Lasting(f"it has more than {MAX_BYTES >> 20} MiB: data belongs beside the code")
            if promised not in (-1, self.size):
                raise OSError(f"the connection ended after {self.size} of {promised} bytes")
        if not zipfile.is_zipfile(self._file):
            raise _Lasting(f"the {self.size} bytes that came are no zip archive (a page that asks to log in, perhaps)")
        return digest.digest()


def _passes(e: BaseException) -> bool:
    """Whether the same may succeed later."""
    if isinstance(e, urllib.error.HTTPError):
        return e.code in (408, 425, 429) or (e.code >= 500 and e.code != 501)
    if isinstance(e, urllib.error.URLError):
        why = e.reason
        unknown = isinstance(why, socket.gaierror) and why.errno == socket.EAI_NONAME
        return isinstance(why, OSError) and not unknown and not isinstance(why, ssl.SSLCertVerificationError)
    return not isinstance(e, (ValueError, http.client.InvalidURL, _Lasting))


def _told(e: BaseException, asked: list[Address]) -> str:
    """An error in words, of a server in its own, without what may be secret."""
    text, line = str(e) or type(e).__name__, ""
    if isinstance(e, urllib.error.HTTPError):
        text, line = f"the server says {e.code} {e.msg}", hide(_first_line(e), asked)[:_TOLD]
    elif isinstance(e, urllib.error.URLError):
        text = str(e.reason)
    elif isinstance(e, (ValueError, http.client.InvalidURL)):
        text = "it is no http address, or is redirected to something that is none"
    return hide(text, asked) + (f": {line}" if line else "")


def _first_line(e: urllib.error.HTTPError) -> str:
    """That of what a server says, as far as it has come; its last word is left out where it may be cut."""
    if e.headers.get_content_type() != "text/plain":
        return ""
    answer: Any = e.fp
    try:
        text = answer.read1(_READ).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):  # it says no more
        return ""
    line, ends, _ = text.partition("\n")
    if not ends and answer.length != 0:
        line = line.rpartition(" ")[0]
    return "".join(c for c in line if c.isprintable()).strip()
