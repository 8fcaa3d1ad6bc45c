"""A program that starts a cluster, and ends in each way that there is: the cluster ends with it.

usage: ends.py PROGRAMS
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

WAYS = {
    "returns": "",
    "raises": "raise SystemExit(3)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
    "closes": "c.close()",
    "is killed while a child of it goes on": "import os\nif os.fork():\n    os.kill(os.getpid(), 9)\nos.close(1)\nsys.stdin.read()",
    "goes on when a child of it has closed": """import os
if not os.fork():
    c.close()
    os._exit(0)
os.wait()
with cascade.Graph("g") as g:
    n = g.command("printf 5 > ${out.n}", out=["n"])
raise SystemExit(int(bytes(c.run(g, n))))
""",
}
BEGIN = """import subprocess, sys, cascade
own = subprocess.Popen
def noted(command, **named):
    p = own(command, **named)
    print(p.pid, flush=True)
    return p
subprocess.Popen = noted
c = cascade.local(store="64MiB", programs=sys.argv[1])
"""

for way, end in WAYS.items():
    folder = tempfile.mkdtemp()
    program = subprocess.Popen(
        [sys.executable, "-c", BEGIN + end, sys.argv[1]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder},
    )  # fmt: skip
    ids = [int(line) for line in program.stdout]
    code = program.wait()
    left = 0
    for pid in ids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([fd], [], [], 600)[0]:
            left += 1
            os.kill(pid, signal.SIGKILL)
        os.close(fd)
    program.stdin.close()
    files = os.listdir(folder)
    shutil.rmtree(folder)
    print(f"a program that {way} ends with {code}; of {len(ids)} processes {left} are left, and {len(files)} folders")
