"""Prints what becomes of archives at addresses of a server that is busy, breaks off, or has something else."""

import base64
import hashlib
import http.server
import io
import os
import re
import socket
import threading
import urllib.parse
import zipfile

from cascade import download

download._PAUSE = 0.001

archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as z:
    z.writestr("data.txt", "from afar")
CONTENT = archive.getvalue()
HASH = hashlib.sha256(CONTENT).hexdigest()

asked: dict[str, int] = {}


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, words, length=None):
        self.answer(status, words.encode(), length, Content_Type="text/plain")

    def do_GET(self):
        host = self.headers["Host"].partition(":")[0]
        path, _, query = self.path.removeprefix(f"http://{host}").partition("?")  # with the host: as a proxy
        basic = self.headers["Authorization"] or ""
        n = asked[path] = asked.get(path, 0) + 1
        if path in MOVED:
            self.answer(302, Location=MOVED[path])
        elif path == "/busy.zip" and n < 3:
            self.answer(503)
        elif path == "/never.zip":
            self.answer(429)
        elif path == "/cut.zip" and n == 1:
            self.answer(200, CONTENT[:20], length=len(CONTENT))
        elif path == "/secret.zip" and basic != "Basic YW5uYTpnZWhlaW0=":  # anna:geheim
            self.answer(401)
        elif path == "/token.zip" and basic != "Basic VE9LRU46":  # TOKEN:
            self.answer(401)
        elif path == "/bare.zip" and basic:
            self.refuse(400, "this is another host's password")
        elif path == "/page.zip":
            self.answer(200, b"<html>log in</html>")
        elif path == "/none.zip":
            self.refuse(404, f"nobody has {self.path}\nlook elsewhere")
        elif path == "/told.zip":  # all that it has heard
            user = base64.b64decode(basic.removeprefix("Basic ")).decode()
            heard = filter(None, dict.fromkeys([query, *re.split("[=&]", query), user, *user.split(":"), basic]))
            self.refuse(403, ", ".join(f"{word} or {urllib.parse.unquote_plus(word)}" for word in heard))
        elif path == "/long.zip":
            self.refuse(403, "geheim" * 100 + " is unknown")
        elif path == "/broken.zip":
            self.refuse(403, "we have no gehe", length=500)
        elif path == "/waits.zip":
            self.refuse(403, "wait for the", length=200)
            done.wait()
        elif path == "/large.zip":
            self.answer(200, b"some", length=5_000_000_000)
        elif path == "/digits.zip":
            self.answer(200, b"some", length="9" * 5000)
        elif path == "/gone.zip":
            self.close_connection = True
        elif not host.isascii() or not self.path.isascii():
            self.refuse(400, f"not ASCII: {host} {self.path}")
        else:
            self.answer(200, CONTENT)


done = threading.Event()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"

MOVED = {
    "/moved.zip": "/code.zip",
    "/circle.zip": "/circle.zip",
    "/away.zip": f"http://localhost:{server.server_port}/bare.zip",
    "/otto.zip": f"http://anna:geheim@127.0.0.1:{server.server_port}/secret.zip",
    "/led.zip": f"http://otto:geheim@127.0.0.1:{server.server_port}/told.zip?sig=a%2Fb.geheim",
    "/bracket.zip": "http://[x/code.zip",
    "/port.zip": "http://anna:geheim/code.zip",
    "/ftp.zip": "ftp://127.0.0.1/code.zip",
    "/here.zip": "http://models.test/secret.zip",
    "/there.zip": "http://elsewhere.test/bare.zip",
}


def show(what, url):
    """Prints what comes of an address."""
    asked.clear()
    try:
        made = download.Download.of(url)
        sent = bytearray()
        made.send(1 << 20, lambda _, b: sent.extend(b))
        told = "came" if bytes(sent) == CONTENT and made.hash.hex() == HASH else "other bytes came"
    except OSError as e:
        told = str(e).replace(base, "SERVER").replace(HASH, "HASH")
    assert "geheim" not in told, told
    what = re.sub("=[0-9a-f]{64}", "=...", what)
    print(f"{what}: {told}; asked {sum(asked.values())}")


for what in (
    "code.zip", "moved.zip", "busy.zip", "cut.zip", "never.zip", "gone.zip", "page.zip", "none.zip?sig=geheim", "large.zip",
    f"code.zip#sha256={HASH}", f"code.zip#sha256={'0' * 64}", "anna:geheim@secret.zip", "anna:geheim@away.zip",
    "TOKEN@token.zip", "otto.zip", "größe.zip?für=1",
    "circle.zip", "bracket.zip", "port.zip", "ftp.zip", "digits.zip",
    "anna:p@ss@none.zip", "geheim@told.zip", "anna:gehe%2fim@told.zip", "told.zip?token=geheim&v=1",
    "told.zip?sig=a%2fb+geheim&v=2", "led.zip", "told.zip?geheim&v=3", "long.zip?sig=" + "geheim" * 100,
    "broken.zip?sig=geheim", "waits.zip",
):  # fmt: skip
    user, at, path = what.rpartition("@")
    show(what.replace("geheim" * 100, "..."), f"http://{user}{at}127.0.0.1:{server.server_port}/{path}")
done.set()

for url in ("http://a..b/code.zip", "http://größe..test/code.zip"):
    show(url, url)
os.environ.update(http_proxy=base, no_proxy="")
for url in ("http://anna:geheim@models.test/here.zip", "http://anna:geheim@models.test/there.zip", "http://größe.test/code.zip"):
    show("by proxy " + url, url)
del os.environ["http_proxy"]

server.shutdown()
server.server_close()
with socket.socket() as closed:  # its port is nobody else's, and nobody listens there
    closed.bind(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{closed.getsockname()[1]}"
    try:
        download.Download.of(base + "/code.zip")
    except OSError as e:
        print(str(e).replace(base, "SERVER"))
