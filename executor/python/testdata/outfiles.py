"""Outputs become files as those of Go do: tests that both have, and what the rules are for files of all kinds."""

import faulthandler
import json
import os
import shutil
import stat
import sys
import tempfile
import warnings

from cascade import save

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "../../../internal/outfile/testdata/outputs.json"), encoding="utf-8") as f:
    for test in json.load(f):
        got = save.paths("/job", [(name, test["to"]) for name in test["names"]], test["missing"])
        if got != test["want"]:
            print(f"{test}: {got}")

warnings.simplefilter("ignore")
with open(os.path.join(here, "../../value/testdata/text.txt"), encoding="utf-8") as f:
    for n, line in enumerate(f, 1):
        if line.startswith("#"):
            continue
        packed, _, want = line.rstrip("\n").partition(" ")
        data = bytes.fromhex(packed)
        got = save.text("msgpack", data)
        if got != (data if want == "refused" else (want + "\n").encode()):
            print(f"line {n}: {got!r}, not {want}")
deep = b"\x91" * 999
print("levels:", save.text("msgpack", deep + b"\x01") == b"[" * 999 + b"1" + b"]" * 999 + b"\n", save.text("msgpack", deep + b"\x91\x01") == deep + b"\x91\x01")

folder = tempfile.mkdtemp()
os.umask(0o022)


def at(name):
    return os.path.join(folder, name)


def write(*outputs, missing=()):
    """Saves outputs, each of which holds its own name, and prints what is told of it."""
    try:
        files = save.save(folder, outputs, missing, lambda name: name.encode())
        print("files:", *(os.path.relpath(f, folder)[:20] if f.startswith(folder) else "an open one" for f in files))
    except OSError as e:
        print(f"{type(e).__name__}:", str(e).replace(folder, "FOLDER"))


for name, mode in (("private", 0o600), ("shared", 0o664), ("program", 0o755)):
    with open(at(name), "w", encoding="utf-8"):
        os.chmod(at(name), mode)
    write(("new.o", name))
    print(f"{name}: {mode:o} -> {stat.S_IMODE(os.stat(at(name)).st_mode):o}, holds {open(at(name)).read()!r}")
write(("long.o", "ä" * 115 + "/" + "ä" * 127))

with open(at("log"), "w+b") as log:
    log.write(b"before ")
    log.flush()
    for path in (f"/dev/fd/{log.fileno()}", f"/proc/self/fd/{log.fileno()}"):
        write(("text.o", path))
    log.write(b" after")
    log.flush()
    print("an open file:", open(at("log"), "rb").read())
print("standard output, which is a pipe:", end=" ")
write(("text.o", "/dev/stdout"))
write(("text.o", "/dev/fd/9999"))

os.symlink("shared", at("link"))
os.symlink(os.devnull, at("null"))
os.symlink("none/x", at("far"))
write(("a.o", "link"), ("b.o", "null"))
print("a link:", os.readlink(at("link")), open(at("shared")).read(), stat.S_ISCHR(os.stat(at("null")).st_mode))

write(("a.o", "far"), ("b.o", "good"), ("c.o", "good"), ("d.o", "private/x"), ("e.o", "last"))
print("the others:", open(at("good")).read(), open(at("last")).read())
write(("a[x/y].o", "names/"), ("a[x_y].o", "names/"), ("a[1].o", "names/"), missing=["a-1.o"])
print("left beside:", [name for _, _, names in os.walk(folder) for name in names if name.startswith(".")])
shutil.rmtree(folder)
sys.stdout.flush()
