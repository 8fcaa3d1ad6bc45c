#!/usr/bin/env python3
"""Runs an MPI program on the members of a gang: gangrun.py [MPIRUN OPTION ...] PROGRAM [ARGUMENT ...]

Member 0 runs mpirun. Where mpirun would use ssh to start its daemon on another
host, the first member of the gang on that host does: it has connected to member 0
on the port that Cascade has leased for it, takes the command, and says how it
ended. All else is MPI's own. The members trust who reaches that port, as MPI does.
"""

import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

MEMBERS = [m.rpartition(":") for m in os.environ["CASCADE_GANG_MEMBERS"].split(",")]
HOSTS = [host for host, _, _ in MEMBERS]
RANK = int(os.environ["CASCADE_GANG_RANK"])
LAUNCHER = "GANGRUN_LAUNCHER"  # socket on which member 0 takes the commands of mpirun


def ask(address, family, line):
    """Sends a line and returns what is answered, which may take as long as it likes."""
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.connect(address)
        with s.makefile("rw") as f:
            print(line, file=f, flush=True)
            return f.readline().strip()


def launch(host, command):
    """What mpirun runs instead of ssh: has a member on the host run the command."""
    return int(ask(os.environ[LAUNCHER], socket.AF_UNIX, f"{host} {command}") or 1)


def follow():
    """A member but the first: runs what member 0 sends, until that is done."""
    host, _, port = MEMBERS[0]
    deadline = time.monotonic() + 60
    while True:
        try:
            link = socket.create_connection((host.strip("[]"), int(port)))
            break
        except OSError:  # it listens soon
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with link, link.makefile("rw") as f:
        print(RANK, file=f, flush=True)
        for line in f:
            word, _, command = line.strip().partition(" ")
            if word == "end":
                return 0
            print(subprocess.run(command, shell=True, check=False).returncode, file=f, flush=True)
    sys.exit("member 0 is gone")


def lead(arguments):
    """Member 0: runs mpirun, and hands its commands to the members that run its daemons."""
    followers, there = {}, threading.Condition()

    class Member(socketserver.StreamRequestHandler):
        def handle(self):
            rank = int(self.rfile.readline() or -1)
            with there:
                followers[rank] = self
                there.notify_all()
            over.wait()
            self.wfile.write(b"end\n")

    class Command(socketserver.StreamRequestHandler):
        def handle(self):
            host, _, command = self.rfile.readline().decode().strip().partition(" ")
            member = followers[HOSTS.index(host)]
            member.wfile.write(f"run {command}\n".encode())
            self.wfile.write(member.rfile.readline())

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        address_family = socket.AF_INET6 if ":" in HOSTS[0] else socket.AF_INET

    over = threading.Event()
    own = HOSTS[0].strip("[]")
    with tempfile.TemporaryDirectory() as folder, \
            Server((own, int(MEMBERS[0][2])), Member) as members, \
            socketserver.ThreadingUnixStreamServer(folder + "/launcher", Command) as commands:  # fmt: skip
        for server in (members, commands):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return mpirun(arguments, followers, there, folder)
        finally:
            over.set()
            for server in (members, commands):
                server.shutdown()


def mpirun(arguments, followers, there, folder):
    with there:
        if not there.wait_for(lambda: len(followers) == len(MEMBERS) - 1, 60):
            sys.exit(f"{len(followers)} of {len(MEMBERS) - 1} members have come")
    slots = ",".join(f"{host}:{HOSTS.count(host)}" for host in dict.fromkeys(HOSTS))
    agent = f"{sys.executable} {os.path.abspath(__file__)} --launch"
    return subprocess.run(
        ["mpirun", "-n", str(len(MEMBERS)), "--host", slots, "--leave-session-attached",
         "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", *arguments],
        env=os.environ | {LAUNCHER: folder + "/launcher"}, check=False).returncode  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        sys.exit(launch(sys.argv[2], " ".join(sys.argv[3:])))
    sys.exit(lead(sys.argv[1:]) if RANK == 0 else follow())
