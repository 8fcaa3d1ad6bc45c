"""Makes text of others safe for a terminal: the same as internal/screen does for the commands."""

from __future__ import annotations

import unicodedata

_SEEN = frozenset((*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))  # signs of the category Cf
_UNSEEN = frozenset((0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0))  # letters and marks without a width
_RESERVED = (range(0xFFF0, 0xFFF9), range(0xE0000, 0xE0100), range(0xE01F0, 0xE1000))  # for more of them


def text(s: str) -> str:
    """s with every character that does more than show itself as an escape, such as \\u001b; ends of lines and tabs stay."""
    return "".join(c if c in "\n\t" or _shows(c) else _escape(c) for c in s)


def line(s: str) -> str:
    """As text, on one line: ends of lines and tabs are escapes too."""
    return "".join(c if _shows(c) else _escape(c) for c in s)


def _shows(c: str) -> bool:
    code = ord(c)
    if code < 0x7F:
        return code >= 0x20
    if code in _UNSEEN or any(code in r for r in _RESERVED):
        return False
    return code in _SEEN or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(c: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c)
    if short is not None:
        return short
    pair = c.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pair[i : i + 4]}" for i in range(0, len(pair), 4))
