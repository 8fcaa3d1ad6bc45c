"""What a user does with the client, as a transcript."""

import hashlib
import http.server
import io
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import zipfile

import numpy as np
import steps

import cascade
import cascade.job
from cascade import inputs

print("outside of a graph:", steps.stats(x=np.array([1.0, 3.0])))

with cascade.Graph("elements") as g:
    several = g.add(steps.count, n=2, task_elements=2)
    far = g.add("other:module.count", n=2, out=["x", "y"], task_elements="*")
    g.add("other:module.look", one=several[1], all=several, both=[several[0], far[1]])
    for name, body in g.document()["tasks"].items():
        print("elements:", name, body.get("generates"), body.get("in"))
    for wrong in (lambda: several[1][0], lambda: several[-1]):
        try:
            wrong()
        except TypeError as e:
            print("refused:", e)

with cascade.Graph("names") as g:
    made = [g.add(steps.ramp, 1, task_name=name) for name in ["", "", "", "ramp-5", "", "", "other"]]
    print("names:", *(ref.name for ref in made))

factor = 3  # travels with the function below


def scaled(x):
    return x * factor


JOB_FILE = """
job: by-path
environments:
  py:
    python: {}
    working_dir: work
    py_modules: [work/steps.py]
inputs:
  texts:
    files: data/*.txt  # two
    retries: 1
tasks:
  read: {run: "py:steps.read", with: {name: greeting.txt}, out: [text]}
  both: {command: "cat ${in.texts[*]} > ${out.o}", in: {texts: "texts[*]"}, out: [o]}
outputs: [read.text, both.o]
"""


class Archive(http.server.BaseHTTPRequestHandler):
    """Serves one archive, and counts how often."""

    content, served = io.BytesIO(), 0

    def do_GET(self):
        type(self).served += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content.getvalue())

    def log_message(self, *_):
        pass


with zipfile.ZipFile(Archive.content, "w") as archive:
    archive.writestr("greeting.txt", "hello from an archive")

state = tempfile.mkdtemp()
os.makedirs(os.path.join(state, "controller", "run"), mode=0o700)
with socket.socket(socket.AF_UNIX) as dead:  # as a controller leaves it that was killed
    dead.bind(os.path.join(state, "controller", "run", "controller.sock"))
with cascade.local(state=state, store="256MiB", programs=sys.argv[1]) as cluster:
    with cascade.Graph("values", pip=["numpy"]) as g:
        x = steps.ramp(100_000)
        mean, stddev = steps.stats(x=x)
        y = g.add(scaled, x)  # of __main__: sent by value
        parts = steps.count(n=4)
        both = steps.total(parts=[x, y])
        series = steps.total(parts=parts)
        size = g.command("wc -c < ${in.x} | tr -d ' \n' > ${out.n}", x=y, out=["n"])
    job = cluster.submit(g, mean, stddev, y, both, series, size, parts)
    job.wait()
    print("mean and standard deviation:", job.result(mean), round(job.result(stddev), 3))
    print("array:", job.result(y)[:3], job.result(y).shape, "writeable:", job.result(y).flags.writeable)
    print("sums:", job.result(both), job.result(series))
    print("a series:", [float(p[0]) for p in job.result(parts)], "and element 2:", job.result("count.out[2]")[0])
    print("a command's:", bytes(job.result(size)))
    print("status:", job.status, "and requests that wait:", len(cluster._controller._heard))
    print("the same again:", cluster.run(g, mean))

    with cascade.Graph("large", pip=["numpy"]) as g:
        large = [steps.ramp(n) for n in (1_000_000, 1_000_001)]
    job = cluster.submit(g, *large)
    agent = next(iter(cluster._agents.values()))
    for host in (cascade.job.host, lambda: "of another host"):
        before, cascade.job.host = agent._req, host
        for ref in large:
            got = job.result(ref)
            print("large:", got.sum(), got[-1], "writeable:", got.flags.writeable, "requests:", agent._req - before)
    cascade.job.host = inputs.host
    agent._line.link._end()  # as an agent that was restarted
    agent._line.broke()
    print("after the link to the agent broke:", job.result(large[0]).sum())

    with cascade.Graph("many", pip=["numpy"]) as g:
        ramps = [steps.ramp(n) for n in range(1, 41)]
    job = cluster.submit(g, *ramps)
    job.wait()
    before = cluster._controller._req
    print("many:", sum(len(job.result(r)) for r in ramps), "numbers in", cluster._controller._req - before, "request")
    print("one again:", job.result(ramps[2]))

    def packages():
        return len(os.listdir(os.path.join(state, "controller", "packages")))

    before, folder = packages(), tempfile.mkdtemp()
    with open(os.path.join(folder, "greeting.txt"), "w", encoding="utf-8") as f:
        f.write("hello from a folder")
    with cascade.Graph("shipped", pip=["numpy"], working_dir=folder) as g:
        text = steps.read("greeting.txt")
    job = cluster.submit(g, text)
    shutil.rmtree(folder)  # what is in it has gone ahead of the job
    print("shipped:", job.result(text), "in", packages() - before, "package more")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Archive)
    threading.Thread(target=server.serve_forever).start()
    digest = hashlib.sha256(Archive.content.getvalue()).hexdigest()
    address = f"http://127.0.0.1:{server.server_port}/dir/code.zip"
    for working_dir in [address, f"{address}#sha256={digest}"]:
        with cascade.Graph("fetched", pip=["numpy"], working_dir=working_dir) as g:
            text = steps.read("greeting.txt")
        print("fetched:", cluster.run(g, text), "in", packages() - before, "packages more, served", Archive.served)
    try:
        with cascade.Graph("wrong", pip=["numpy"], working_dir=f"{address}#sha256={'0' * 64}") as g:
            steps.read("greeting.txt")
        cluster.submit(g)
    except OSError as e:
        print("refused:", str(e).replace(address, "ADDRESS").replace(digest, "DIGEST"))

    before = packages()
    for name, text in (("a.txt", "winds"), ("b.txt", "waves")):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    with cascade.Graph("inputs") as g:
        one, two = g.files([os.path.join(folder, "a.txt"), os.path.join(folder, "b.txt")], name="texts")
        again, far = g.file(os.path.join(folder, "b.txt")), g.url(address, sha256=digest)
        both = g.command("cat ${in.one} ${in.two} ${in.again} > ${out.o} && head -c 2 ${in.far} >> ${out.o}",
                         one=one, two=two, again=again, far=far, out=["o"])  # fmt: skip
    print("inputs:", *(ref.name for ref in (one, two, again, far)))
    job = cluster.submit(g, both)
    shutil.rmtree(folder)
    print("they hold:", bytes(job.result(both)), "in", packages() - before, "packages more")
    with cascade.Graph("gone") as g:
        g.command("cat ${in.x}", x=g.file(os.path.join(folder, "a.txt")))
    try:
        cluster.submit(g)
    except ValueError as e:
        print("refused:", str(e).replace(folder, "FOLDER"))
    server.shutdown()
    server.server_close()

    with cascade.Graph("mistakes", pip=["numpy"]) as g:
        steps.fail(x=1.5)
    job = cluster.submit(g)
    try:
        job.wait()
    except ValueError as e:
        print("caught", type(e).__name__, "of task", e.task, "kind", e.kind, "message", e.message)
        print("its last line:", e.stack.splitlines()[-1])
        print("it printed:", e.output.strip(), "/", job.logs("fail").strip())
    try:
        job.logs("fall")
    except KeyError as e:
        print("refused:", e.args[0].replace(job.id, "JOB"))

    with cascade.Graph("none", pip=["numpy"]) as g:
        parts = steps.count(n=0)
    print("a series of none:", cluster.run(g, parts))

    with cascade.Graph("unkept", pip=["numpy"]) as g:
        parts = steps.count(n=2)
        both = steps.total(parts=parts)
    job = cluster.submit(g, both)
    job.wait()
    for name in ["count.out[1]", "count.out", "count.out[*]"]:
        try:
            print("not refused:", job.result(name))
        except KeyError as e:
            print("refused:", e.args[0].replace(job.id, "JOB"))

    with cascade.Graph("keys", pip=["numpy"]) as g:
        steps.look(x="depth")
    try:
        cluster.submit(g).wait()
    except KeyError as e:
        print("its text:", str(e).splitlines()[0], "/", str(e).splitlines()[-1])

    with cascade.Graph("stopped", pip=["numpy"]) as g:
        steps.forever()
    job = cluster.submit(g)
    for progress in job.watch():
        if any(group.running for group in progress.groups):
            break
    job.cancel("enough")
    try:
        job.wait()
    except cascade.JobCancelled:
        print("cancelled; status:", job.status)

    with cascade.Graph("pickled") as g:
        pair = g.add(lambda: {1, 2}, task_name="pair")
    pickled = cluster.submit(g, pair)
    try:
        pickled.result(pair)
    except TypeError as e:
        print("refused:", str(e).replace(pickled.id, "JOB"))
    print("of a job that is trusted:", pickled.result(pair, unpickle=True))

    folder = tempfile.mkdtemp()  # job files whose paths begin at their own folder, not at ours
    for name, text in {
        "work/greeting.txt": "hello from a job file", "work/steps.py": "def read(name): return open(name).read()\n", "data/1.txt": "1",
        "data/2.txt": "2", "job.yaml": JOB_FILE, "bad.yaml": JOB_FILE.replace("in.texts[", "in.text["),
    }.items():  # fmt: skip
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    before = packages()
    try:
        cluster.submit(pathlib.Path(folder, "bad.yaml"))
    except cascade.RequestError as e:
        print("refused:", e)
    try:
        cluster.submit(JOB_FILE)
    except ValueError as e:
        print("refused:", str(e).replace(os.getcwd(), "HERE"))
    jobs = [cluster.submit(pathlib.Path(folder, "job.yaml")), cluster.submit(JOB_FILE, dir=folder)]
    for name in ("work", "data"):  # what was sent is not needed any more
        shutil.rmtree(os.path.join(folder, name))
    said = (j.result("read.text") + bytes(j.result("both.o")).decode() for j in jobs)
    print("job files:", *said, packages() - before, "packages more")
    shutil.rmtree(folder)

    try:
        cluster.submit("job: broken\ntasks:\n  a: {run: nothing:f, otu: [x]}\n")
    except cascade.RequestError as e:
        print("refused:", e)
    try:
        g.add(steps.ramp, n=threading.Lock())
    except TypeError as e:
        print("refused:", e)

    with cascade.connect(cluster.address) as other:
        print("another client:", other.job(job.id).status, "of", len(other.jobs()), "jobs")
shutil.rmtree(state)
