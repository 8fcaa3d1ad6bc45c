"""A job file with parameters is submitted, and its outputs are copied to files: saves.py ADDRESS FOLDER FOLDER-OF-FILES."""

import faulthandler
import os
import pathlib
import sys
import threading

import cascade

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
address, source, folder = sys.argv[1:]
os.mkfifo(os.path.join(folder, "pipe.txt"))
os.symlink("linked.txt", os.path.join(folder, "link.txt"))
piped = []


def read():
    with open(os.path.join(folder, "pipe.txt"), "rb") as f:
        piped.append(f.read())


reader = threading.Thread(target=read, daemon=True)
reader.start()
with cascade.connect(address) as cluster:
    path = pathlib.Path(source, "job.yaml")
    job = cluster.submit(path, params={"n": 3, "name": "a: b"})
    os.umask(0o027)
    files = job.save(folder)
    reader.join()
    print(job.id)
    print("files:", *(os.path.relpath(f, folder) for f in files))
    print("modes:", *(f"{os.stat(f).st_mode & 0o777:o}" for f in files if os.path.isfile(f)), "piped:", piped, "link:", os.readlink(os.path.join(folder, "link.txt")))
    print("left:", sorted(f for f in os.listdir(folder) if f.startswith(".")))
    for params in ({"m": 1}, {"n": "many"}):
        try:
            cluster.submit(path, params=params)
        except cascade.RequestError as e:
            print("refused:", e)
    try:
        cluster.submit(cascade.Graph("g"), params={"n": 1})
    except TypeError as e:
        print("refused:", e)
    failing = cluster.submit("job: f\ntasks: {a: {command: 'exit 1', out: [x], stdout: x}}\noutputs: [{from: a.x, to: x}]\n")
    try:
        failing.save(folder)
    except cascade.TaskFailed as e:
        print("refused:", e.kind, os.path.exists(os.path.join(folder, "x")), e.__cause__)
    with open(os.path.join(folder, "no-folder"), "w", encoding="utf-8"):
        pass
    failing = cluster.submit("job: g\nkeep_going: true\ntasks: {a: {command: 'exit 1', out: [x], stdout: x}, b: {command: 'echo', out: [x], stdout: x}}\n"
                             "outputs: [{from: a.x, to: x}, {from: b.x, to: no-folder/x}]\n")  # fmt: skip
    try:
        failing.save(folder)
    except cascade.TaskFailed as e:
        print("refused:", e.kind, type(e.__cause__).__name__, str(e.__cause__).replace(folder, "FOLDER"))
    try:
        cluster.submit("job: t\ntasks: {a: {command: 'echo', out: [x], stdout: x}, b: {command: 'echo', out: [x], stdout: x}}\n"
                       "outputs: [{from: a.x, to: x}, {from: b.x, to: ./x}]\n").save(folder)  # fmt: skip
    except (ValueError, cascade.RequestError) as e:
        print("refused:", str(e).replace(folder, "FOLDER"))
