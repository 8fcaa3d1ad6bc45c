"""A peer of Cascade's links in plain pyzmq: what docs/protocol/links.md says, in one file.

usage: peer.py dealer|router ADDRESS COUNT SIZE HEARTBEAT_MS

dealer connects and says Hello; router binds, says where, and answers with Welcome. Then
either sends COUNT messages with bodies of SIZE bytes and expects each of them
back as head "re:<n>" with the same body. It prints "ok" and what it saw.
"""
import struct
import sys

import zmq

PATIENCE = 240_000  # ms, which only keep a failing test from hanging
HELLO, WELCOME, DATA, ACK, CLOSE, REFUSE = 1, 2, 3, 4, 5, 6


def pack(v):
    if isinstance(v, int):
        if v < 128:
            return bytes([v])
        return b"\xcf" + struct.pack(">Q", v)
    if isinstance(v, str):
        b = v.encode()
        return b"\xd9" + bytes([len(b)]) + b
    return b"\xdc" + struct.pack(">H", len(v)) + b"".join(map(pack, v))


def unpack(b, i=0):
    c = b[i]
    i += 1
    if c < 0x80:
        return c, i
    if 0xCC <= c <= 0xCF:
        n = 1 << (c - 0xCC)
        return int.from_bytes(b[i : i + n], "big"), i + n
    if c & 0xE0 == 0xA0 or c in (0xD9, 0xDA):
        n = c & 31
        if c >= 0xD9:
            w = c - 0xD8
            n = int.from_bytes(b[i : i + w], "big")
            i += w
        return b[i : i + n].decode(), i + n
    if c & 0xF0 == 0x90 or c == 0xDC:
        n = c & 15
        if c == 0xDC:
            n = int.from_bytes(b[i : i + 2], "big")
            i += 2
        out = []
        for _ in range(n):
            v, i = unpack(b, i)
            out.append(v)
        return out, i
    raise ValueError("msgpack byte %#x" % c)


def greeting(kind, role, session, resume):
    return pack([kind, 0, 0, 1, 1, role, "pyzmq", 1, 0, "pyzmq", ["plain"], 1, session, resume, 64 << 20, 64 << 20])


def main():
    role, address, count, size, beat = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    context = zmq.Context()
    s = context.socket(zmq.DEALER if role == "dealer" else zmq.ROUTER)
    s.linger, s.rcvtimeo, s.sndtimeo = PATIENCE, PATIENCE, PATIENCE
    if beat:
        s.setsockopt(zmq.HEARTBEAT_IVL, beat)
        s.setsockopt(zmq.HEARTBEAT_TIMEOUT, PATIENCE)
        s.setsockopt(zmq.HEARTBEAT_TTL, PATIENCE)
    monitor = s.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    prefix = []
    if role == "dealer":
        s.connect(address)
        s.send(greeting(HELLO, "client", 77, 0))
        first, = s.recv_multipart()
        want = WELCOME
    else:
        s.bind(address)
        print("bound", s.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode(), flush=True)
        peer, first = s.recv_multipart()
        prefix, want = [peer], HELLO
    hello = unpack(first)[0]
    assert hello[0] == want, hello
    if role == "router":
        s.send_multipart(prefix + [greeting(WELCOME, "controller", hello[12], 0)])

    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    sent = received = 0
    window = 4  # messages in flight, so that large ones flow both ways at once
    while received < count:
        while sent < count and sent - received < window:
            sent += 1
            s.send_multipart(prefix + [pack([DATA, sent, received]), b"%d" % sent, body])
        frames = s.recv_multipart()[len(prefix) :]
        env = unpack(frames[0])[0]
        if env[0] == ACK:
            assert env[2] <= sent, env
            continue
        assert env[0] == DATA and env[1] == received + 1, env
        received += 1
        assert frames[1] == b"re:%d" % received and frames[2] == body, frames[1]
    broken = monitor.poll(0)
    s.send_multipart(prefix + [pack([CLOSE, sent, received, "done"])])
    s.disable_monitor()
    monitor.close()
    s.close()
    context.term()
    assert not broken, "the connection broke on the way"
    print("ok", hello[5], hello[6], flush=True)


main()
