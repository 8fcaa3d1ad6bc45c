"""What is read again of code that is packed once more; each line is a case."""

import os
import shutil
import tempfile

from cascade import archive, packages

folder = tempfile.mkdtemp()
read = []
written = 0
content = archive.content
before = None


def counted(path, size):
    read.append(os.path.relpath(path, folder))
    return content(path, size)


def write(name, text):
    """Writes a file at a time of its own, however fast this is."""
    global written
    written += 1
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    os.utime(path, ns=(written, written))


def pack(what):
    global before
    read.clear()
    sealed, made = packages.seal({"e": {"working_dir": "code", "binary": "tool", "py_modules": ["one.py", "archive.zip"]}}, folder)
    print(f"{what}: {'as before' if sealed == before else 'another'}, read {sorted(read)}")
    before = sealed
    return made


archive.content = counted
os.mkdir(f"{folder}/code")
for name, text in {"code/a": "1", "code/b": "2", "code/.cascadeignore": "*.log", "one.py": "x = 1", "archive.zip": "zip", "tool": "#!"}.items():
    write(name, text)
os.chmod(f"{folder}/tool", 0o700)
packages._AT_REST = 1 << 62  # all has just been written
pack("new")
pack("just written")
packages._AT_REST = -(1 << 62)  # nothing has
pack("at rest, for the first time")
pack("again")
write("code/c.log", "ignored")
pack("an ignored file")
write("code/a", "3")
pack("other content of one size")
write("code/c", "")
pack("a file more")
os.remove(f"{folder}/code/c")
pack("one less")
os.chmod(f"{folder}/code/a", 0o700)
pack("a program")
os.rename(f"{folder}/code/b", f"{folder}/code/d")
pack("another name")
write("one.tmp", "x = 1")
os.replace(f"{folder}/one.tmp", f"{folder}/one.py")
pack("a file in the place of its like")
write("archive.zip", "ZIP")
made = pack("another archive")
pack("again")
try:
    write("one.py", "x = 2")
    made[2].send(1 << 20, lambda offset, piece: None)
except archive.Changed as e:
    print("sent:", str(e).replace(folder, "FOLDER"))
packages.forget()
pack("when something has changed unseen")
shutil.rmtree(folder)
