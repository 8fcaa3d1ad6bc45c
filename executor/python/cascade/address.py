"""An address of http: the request for it, and what in it may be secret."""

from __future__ import annotations

import base64
import re
import string
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote, unquote_plus, unquote_to_bytes

_FORM = re.compile(r"(https?)://(?:([^/?#]*)@)?([^/?#]*)([^?#]*)\??([^#]*)", re.IGNORECASE)
_LEAST = 4  # characters of what is hidden: what is shorter is in too many words


class Address(NamedTuple):
    """The parts of an address, as they were written."""

    scheme: str
    user: str | None  # and password
    host: str  # and port
    path: str
    query: str

    @classmethod
    def of(cls, text: str) -> Address | None:
        """That of a text; None for a text that is none."""
        form = _FORM.match(text)
        return cls(form[1].lower(), form[2], form[3], form[4], form[5]) if form else None

    @property
    def plain(self) -> str:
        """Without what may be secret."""
        return f"{self.scheme}://{self.host}{self.path}"

    def request(self) -> urllib.request.Request:
        """A request in ASCII; user and password travel in a header, as urllib does not look for them in an address.

        Raises UnicodeError for a host that cannot be written so.
        """
        host, colon, port = self.host.partition(":")
        if not self.host.isascii():
            host = host.encode("idna").decode()
        rest = quote(self.path + (f"?{self.query}" if self.query else ""), safe=string.punctuation)
        request = urllib.request.Request(f"{self.scheme}://{host}{colon}{port}{rest}")
        if self.user is not None:
            request.add_header("Authorization", f"Basic {self._basic()}")
        return request

    def _basic(self) -> str:
        name, _, password = (self.user or "").partition(":")
        return base64.b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password)).decode()

    def secrets(self) -> set[str]:
        """What may be secret, in each form in which a server may repeat it."""
        written = [self.query]
        for pair in self.query.split("&"):
            key, _, value = pair.partition("=")
            written.append(value or key)  # some sign with a bare word
        found = {self.query}
        if self.user is not None:
            written += [self.user, *self.user.partition(":")]
            found.add(self._basic())
        for text in written:
            found.add(text)
            for plain in (unquote(text), unquote_plus(text)):
                found |= {plain, quote(plain), quote(plain, safe=""), quote_plus(plain)}
        return {secret for secret in found if len(secret) >= _LEAST}


def hide(text: str, addresses: Iterable[Address]) -> str:
    """A text without what may be secret in these addresses, nor user, password and query of any other."""
    secrets = {secret for address in addresses for secret in address.secrets()}
    if secrets:  # of what begins at the same place the longest is replaced
        text = re.sub("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))), "***", text)
    return re.sub(r"\?[^\s\"'`]+", "?***", re.sub(r"[^/\s\"'`]+@", "***@", text))
