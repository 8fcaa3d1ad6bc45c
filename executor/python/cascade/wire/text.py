"""Text in messages: its encoding never fails, so that no text of a task ends a link."""

from __future__ import annotations

import codecs

ERRORS = "cascade.text"  # of str.encode: bytes that were no UTF-8 as they were, any other half of a character as an escape


def _halves(error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = b""
    for c in error.object[error.start : error.end]:
        code = ord(c)
        out += bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}".encode()
    return out, error.end


codecs.register_error(ERRORS, _halves)


def valid(text: str) -> str:
    """Text for people, as every reader of UTF-8 takes it: halves of characters are escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
