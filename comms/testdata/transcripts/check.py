"""A second reader of the transcripts, made from docs/protocol and schema.txt alone.

usage: check.py FILE...

It decodes the bytes of every message, and encodes its text, with code of its
own and nothing but Python's standard library; both must agree with the file.
README.md describes the format. It is also a start for a Python peer: Reader,
Writer and Schema are all that the message layer needs.
"""

import json
import os
import re
import struct
import sys
import uuid


class Malformed(Exception):
    pass


class Truncated(Exception):
    pass


class Reader:
    """Reads msgpack from a buffer, one value at a time."""

    NIL = 0xC0

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise Truncated("%d bytes wanted at %d of %d" % (n, self.at, len(self.data)))
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, n, signed=False):
        return int.from_bytes(self.take(n), "big", signed=signed)

    def nil(self):
        """Consumes a nil if it is next."""
        if self.at < len(self.data) and self.data[self.at] == self.NIL:
            self.at += 1
            return True
        return False

    def integer(self):
        c = self.number(1)
        if c < 0x80:
            return c
        if c >= 0xE0:
            return c - 256
        if 0xCC <= c <= 0xCF:
            return self.number(1 << (c - 0xCC))
        if 0xD0 <= c <= 0xD3:
            return self.number(1 << (c - 0xD0), signed=True)
        raise Malformed("0x%02x where a number is wanted" % c)

    def float(self):
        c = self.data[self.at] if self.at < len(self.data) else 0
        if c == 0xCB:
            return struct.unpack(">d", self.take(9)[1:])[0]
        if c == 0xCA:
            return struct.unpack(">f", self.take(5)[1:])[0]
        return float(self.integer())

    def boolean(self):
        c = self.number(1)
        if c not in (0xC2, 0xC3):
            raise Malformed("0x%02x where a boolean is wanted" % c)
        return c == 0xC3

    def bytes(self):
        """Text or bytes: the two are not told apart."""
        c = self.number(1)
        if c & 0xE0 == 0xA0:
            return self.take(c & 31)
        if 0xC4 <= c <= 0xC6:
            return self.take(self.number(1 << (c - 0xC4)))
        if 0xD9 <= c <= 0xDB:
            return self.take(self.number(1 << (c - 0xD9)))
        raise Malformed("0x%02x where text or bytes are wanted" % c)

    def array(self):
        c = self.number(1)
        if c & 0xF0 == 0x90:
            n = c & 15
        elif c in (0xDC, 0xDD):
            n = self.number(2 << (c - 0xDC))
        else:
            raise Malformed("0x%02x where a list is wanted" % c)
        if n > len(self.data) - self.at:  # each element has at least a byte
            raise Truncated("a list of %d" % n)
        return n

    def skip(self, depth=0):
        """Passes over one value of any kind."""
        if depth > 16:
            raise Malformed("nested too deeply")
        c = self.number(1)
        children = 0
        if c & 0xF0 == 0x80:
            children = 2 * (c & 15)
        elif c & 0xF0 == 0x90:
            children = c & 15
        elif c & 0xE0 == 0xA0:
            self.take(c & 31)
        elif c == 0xC1:
            raise Malformed("0xc1")
        elif 0xC4 <= c <= 0xC6:
            self.take(self.number(1 << (c - 0xC4)))
        elif 0xC7 <= c <= 0xC9:
            self.take(1 + self.number(1 << (c - 0xC7)))
        elif c in (0xCA, 0xCB):
            self.take(4 << (c - 0xCA))
        elif 0xCC <= c <= 0xCF:
            self.take(1 << (c - 0xCC))
        elif 0xD0 <= c <= 0xD3:
            self.take(1 << (c - 0xD0))
        elif 0xD4 <= c <= 0xD8:
            self.take(1 + (1 << (c - 0xD4)))
        elif 0xD9 <= c <= 0xDB:
            self.take(self.number(1 << (c - 0xD9)))
        elif c in (0xDC, 0xDD):
            children = self.number(2 << (c - 0xDC))
        elif c in (0xDE, 0xDF):
            children = 2 * self.number(2 << (c - 0xDE))
        for _ in range(children):
            self.skip(depth + 1)


class Writer:
    """Writes msgpack, each value in its shortest form."""

    def __init__(self):
        self.out = bytearray()

    def integer(self, v):
        if -32 <= v < 0x80:
            self.out += struct.pack("b", v) if v < 0 else bytes([v])
            return
        forms = (0xD0, "bhiq") if v < 0 else (0xCC, "BHIQ")
        for i, form in enumerate(forms[1]):
            try:
                packed = struct.pack(">" + form, v)
            except struct.error:
                continue
            self.out += bytes([forms[0] + i]) + packed
            return
        raise ValueError("%d does not fit 64 bits" % v)

    def float(self, v):
        self.out += b"\xcb" + struct.pack(">d", v)

    def boolean(self, v):
        self.out.append(0xC3 if v else 0xC2)

    def nil(self):
        self.out.append(Reader.NIL)

    def sized(self, forms, n):
        for code, width in forms:
            if n < 1 << (8 * width):
                self.out += bytes([code]) + n.to_bytes(width, "big")
                return
        raise ValueError("too long")

    def text(self, b):
        if len(b) < 32:
            self.out.append(0xA0 | len(b))
        else:
            self.sized([(0xD9, 1), (0xDA, 2), (0xDB, 4)], len(b))
        self.out += b

    def bytes(self, b):
        self.sized([(0xC4, 1), (0xC5, 2), (0xC6, 4)], len(b))
        self.out += b

    def array(self, n):
        if n < 16:
            self.out.append(0x90 | n)
        else:
            self.sized([(0xDC, 2), (0xDD, 4)], n)


class Schema:
    """What schema.txt says. Records and messages are dicts of all their fields."""

    def __init__(self, path):
        self.enums, self.records, self.messages, self.numbers = {}, {}, {}, {}
        with open(path, encoding="utf-8") as f:
            for line in f:
                if line.startswith("#"):
                    continue
                head, _, rest = line.strip().partition(":")
                words = head.split()
                pairs = [p.split() for p in rest.split(",") if p.strip()]
                if words[0] == "enum":
                    self.enums[words[1]] = {name: int(v) for v, name in pairs}
                elif words[0] == "record":
                    self.records[words[1]] = pairs
                else:
                    self.records[words[2]] = pairs
                    self.messages[words[2]] = int(words[1])
                    self.numbers[int(words[1])] = words[2]

    def zero(self, typ):
        if typ.endswith("?"):
            return None
        if typ[0] == "[":
            return []
        if typ in ("str", "bin"):
            return b""
        if typ == "id":
            return bytes(16)
        if typ == "bool":
            return False
        if typ == "float":
            return 0.0
        if typ in self.records:
            return {name: self.zero(t) for name, t in self.records[typ]}
        return 0

    def limits(self, typ):
        """The least and the largest value of a whole number."""
        if typ in self.enums:
            typ = "u8"
        bits = int(typ[1:])
        return (0, (1 << bits) - 1) if typ[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def read(self, r, typ):
        if r.nil():
            return self.zero(typ)
        typ = typ.rstrip("?")
        if typ[0] == "[":
            return [self.read(r, typ[1:-1]) for _ in range(r.array())]
        if typ in ("str", "bin"):
            return r.bytes()
        if typ == "id":
            b = r.bytes()
            if len(b) != 16:
                raise Malformed("an id of %d bytes" % len(b))
            return b
        if typ == "bool":
            return r.boolean()
        if typ == "float":
            return r.float()
        if typ in self.records:
            return self.read_record(r, typ)
        v = r.integer()
        least, most = self.limits(typ)
        if not least <= v <= most:
            raise Malformed("%d is no %s" % (v, typ))
        return v

    def read_record(self, r, name):
        out = self.zero(name)
        n = r.array()
        for field, typ in self.records[name][:n]:
            out[field] = self.read(r, typ)
        for _ in range(n - len(self.records[name])):
            r.skip()
        return out

    def decode(self, data):
        """Returns (name, fields); name is a number when nobody knows it."""
        r = Reader(data)
        n = r.array()
        if n < 2:
            raise Malformed("a message of %d elements" % n)
        number = r.integer()
        if not 0 <= number <= 255:
            raise Malformed("type %d" % number)
        if number not in self.numbers:
            return number, None
        name = self.numbers[number]
        fields = self.read(r, name)
        for _ in range(n - 2):
            r.skip()
        if r.at != len(data):
            raise Malformed("%d bytes behind the message" % (len(data) - r.at))
        return name, fields

    def write(self, w, typ, v):
        if typ.endswith("?"):
            if v is None:
                w.nil()
                return
            typ = typ[:-1]
        if typ[0] == "[":
            w.array(len(v))
            for e in v:
                self.write(w, typ[1:-1], e)
        elif typ == "str":
            w.text(v)
        elif typ in ("bin", "id"):
            w.bytes(v)
        elif typ == "bool":
            w.boolean(v)
        elif typ == "float":
            w.float(v)
        elif typ in self.records:
            w.array(len(self.records[typ]))
            for field, t in self.records[typ]:
                self.write(w, t, v[field])
        else:
            w.integer(v)

    def encode(self, name, fields):
        w = Writer()
        w.array(2)
        w.integer(self.messages[name])
        self.write(w, name, fields)
        return bytes(w.out)


class Text:
    """Reads the text form of a message."""

    TOKEN = re.compile(r'\s*([{}\[\],:]|(?:h|id)?"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+)')

    def __init__(self, schema, text):
        self.schema = schema
        self.tokens = self.TOKEN.findall(text)
        self.at = 0

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def want(self, token):
        got = self.next()
        if got != token:
            raise ValueError("want %s, got %s" % (token, got))

    def message(self):
        name = self.next()
        fields = self.value(name)
        if self.at != len(self.tokens):
            raise ValueError("text behind the message")
        return name, fields

    def value(self, typ):
        typ = typ.rstrip("?")
        if typ[0] == "[":
            return self.many("[", "]", lambda out: out.append(self.value(typ[1:-1])), [])
        if typ in self.schema.records:
            types = dict(self.schema.records[typ])

            def field(out):
                name = self.next()
                self.want(":")
                out[name] = self.value(types[name])

            return self.many("{", "}", field, self.schema.zero(typ))
        token = self.next()
        if token.startswith('h"'):
            return bytes.fromhex(token[2:-1])
        if token.startswith('id"'):
            return uuid.UUID(token[3:-1]).bytes
        if token.startswith('"'):
            return json.loads(token).encode("utf-8")
        if typ == "bool":
            return {"true": True, "false": False}[token]
        if typ == "float":
            return float(token)
        return self.schema.enums.get(typ, {}).get(token) if token in self.schema.enums.get(typ, {}) else int(token)

    def many(self, first, last, one, out):
        self.want(first)
        while self.tokens[self.at] != last:
            one(out)
            if self.tokens[self.at] == ",":
                self.at += 1
        self.at += 1
        return out


def entries(path):
    """Yields (line, mark, text, bytes) of each message."""
    mark, start, text, data = "", 0, "", b""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for i, line in enumerate(lines + [""], 1):
        first = line[:1]
        if first in ("", "#") or first in "><~!":
            if mark:
                yield start, mark, text, data
            mark, start, text, data = first.strip("#"), i, line[1:], b""
        elif first == "=":
            data += bytes.fromhex(line[1:])
        elif first != "+":
            text += "\n" + line


def same(a, b):
    """Equality in which a NaN equals a NaN and 0 is not -0."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack(">d", a) == struct.pack(">d", b) or (a != a and b != b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def refusal(schema, data):
    """What a reader says of bytes: truncated, malformed, unknown, ignored; "" when they are a message."""
    try:
        name, _ = schema.decode(data)
    except Truncated:
        return "truncated"
    except Malformed:
        return "malformed"
    if isinstance(name, str):
        return ""
    return "unknown" if name < 128 else "ignored"


def check(schema, mark, text, data):
    """Returns what is wrong with one message, "" when nothing is."""
    if mark == "!":
        want, got = text.strip().partition(":")[0], refusal(schema, data)
        return "" if want == got else "want %s, got %s" % (want, got or "a message")
    want = Text(schema, text).message()
    got = schema.decode(data)
    if want[0] != got[0] or not same(want[1], got[1]):
        return "the bytes say\n%s\nthe text says\n%s" % (got, want)
    if mark != "~" and schema.encode(*want) != data:
        return "the text encodes as\n%s" % schema.encode(*want).hex()
    return ""


def main(paths):
    schema = Schema(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.txt"))
    bad = n = 0
    for path in paths:
        if os.path.basename(path) == "schema.txt":
            continue
        for line, mark, text, data in entries(path):
            n += 1
            try:
                problem = check(schema, mark, text, data)
            except (Malformed, Truncated, ValueError, KeyError, IndexError) as e:
                problem = "%s: %s" % (type(e).__name__, e)
            if problem:
                bad += 1
                print("%s:%d: %s" % (path, line, problem))
    print("%d messages, %d wrong" % (n, bad))
    return 1 if bad or not n else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
