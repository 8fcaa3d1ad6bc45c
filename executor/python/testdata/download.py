"""Prints what becomes of archives at addresses of a server that is busy, breaks off, or has something else."""

import hashlib
import http.server
import io
import re
import threading
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

    def do_GET(self):
        path = self.path.partition("?")[0]
        n = asked[path] = asked.get(path, 0) + 1
        if path == "/busy.zip" and n < 3:
            self.answer(503)
        elif path == "/never.zip":
            self.answer(429)
        elif path == "/cut.zip" and n == 1:
            self.answer(200, CONTENT[:20], length=len(CONTENT))
        elif path == "/moved.zip":
            self.answer(302, Location="/code.zip")
        elif path == "/secret.zip" and self.headers["Authorization"] != "Basic YW5uYTpnZWhlaW0=":
            self.answer(401)
        elif path == "/away.zip":
            self.answer(302, Location=f"http://localhost:{server.server_port}/bare.zip")
        elif path == "/bare.zip" and self.headers["Authorization"]:
            self.answer(400, b"this is another host's password", Content_Type="text/plain")
        elif path == "/page.zip":
            self.answer(200, b"<html>log in</html>")
        elif path == "/none.zip":
            self.answer(404, f"nobody has {self.path}\nlook elsewhere".encode(), Content_Type="text/plain")
        elif path == "/large.zip":
            self.answer(200, b"some", length=5_000_000_000)
        elif path == "/gone.zip":
            self.close_connection = True
        else:
            self.answer(200, CONTENT)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"

for what in (
    "code.zip", "moved.zip", "busy.zip", "cut.zip", "never.zip", "gone.zip", "page.zip", "none.zip?sig=geheim", "large.zip",
    f"code.zip#sha256={HASH}", f"code.zip#sha256={'0' * 64}", "anna:geheim@secret.zip", "anna:geheim@away.zip",
):  # fmt: skip
    asked.clear()
    user, at, path = what.rpartition("@")
    url = f"http://{user}{at}127.0.0.1:{server.server_port}/{path}"
    try:
        made = download.Download.of(url)
        sent = bytearray()
        made.send(1 << 20, lambda _, b, sent=sent: sent.extend(b))
        told = "came" if bytes(sent) == CONTENT and made.hash.hex() == HASH else "other bytes came"
    except OSError as e:
        told = str(e).replace(base, "SERVER").replace(HASH, "HASH")
    assert "geheim" not in told, told
    what = re.sub("=[0-9a-f]{64}", "=...", what)
    print(f"{what}: {told}; asked {sum(asked.values())}")

server.shutdown()
server.server_close()
closed = base + "/code.zip"
try:
    download.Download.of(closed)
except OSError as e:
    print(str(e).replace(base, "SERVER"))
