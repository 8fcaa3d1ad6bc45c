"""Waiting for results: of several threads, of a process that was forked, when others end or interrupt it."""

import faulthandler
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import uuid

import cascade

faulthandler.dump_traceback_later(600, exit=True)  # what waits for ever ends the program
folder = tempfile.mkdtemp()
pipe = os.path.join(folder, "pipe")
os.mkfifo(pipe)


def together(*calls):
    """Runs calls in threads of their own, and prints what each raised."""
    raised = []

    def one(call):
        try:
            call()
        except Exception as e:
            raised.append(f"{type(e).__name__}: {e}")

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()

    def join():
        for thread in threads:
            thread.join()
        return sorted(raised)

    return join


def waiting(name):
    """A job whose task ends when it is stopped, and an output of another task that comes before."""
    with cascade.Graph(name) as g:
        first = g.command("printf first > ${out.o}", task_name="first", out=["o"])
        last = g.command(f"cat {pipe} > ${{out.o}}", task_name="last", out=["o"])
    return g, first, last


with cascade.local(store="64MiB", cpu=4, programs=sys.argv[1]) as cluster:
    g, first, last = waiting("early")
    job = cluster.submit(g, first, last)
    print("the first:", bytes(job.result(first)), "while the job is", job.status)
    try:
        job.result(last, timeout=0.01)
    except TimeoutError as e:
        print("refused:", re.sub("(waiting|ready|running)( on agent local)?;", "STATE;", str(e).replace(job.id, "JOB")))
    again = cluster.job(job.id)  # which knows nothing of its graph
    print("by name:", bytes(again.result("first.o")))
    for name in ("first.p", "second.o"):
        try:
            again.result(name)
        except KeyError as e:
            print("refused:", e.args[0].replace(job.id, "JOB"))
    with open(pipe, "w", encoding="utf-8") as f:
        f.write("last")
    print("the last:", bytes(job.result(last)), bytes(again.result("last.o")))

    def use(i):
        with cascade.Graph(f"of-{i}") as g:
            made = [g.command(f"printf {i}.{k} > ${{out.o}}", out=["o"]) for k in range(3)]
        for _ in range(5):
            got = [bytes(v).decode() for v in cluster.run(g, *made)]
            if got != [f"{i}.{k}" for k in range(3)]:
                raise ValueError(f"thread {i} got {got}")
            if not any(row["name"] == f"of-{i}" for row in cluster.jobs()):
                raise ValueError(f"the job of thread {i} is not listed")

    print("eight threads:", together(*(lambda i=i: use(i) for i in range(8)))())
    job.wait()
    print("requests that wait:", len(cluster._controller._heard))

    # Several wait for one job, and one thread of them is interrupted: the others go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts this in the background has it ignored
    g, first, last = waiting("cancelled")
    job = cluster.submit(g, first, last)
    peer = cluster._controller
    polls, joins = peer._poll, []

    class Interrupted:
        """The wait of the thread that reads for all: others begin to wait, and a signal ends it."""

        def poll(self, *_):
            peer._poll = polls
            joins.append(together(*(lambda: job.result(last) for _ in range(3))))
            signal.raise_signal(signal.SIGINT)

    peer._poll = Interrupted()
    try:
        job.result(last)
    except KeyboardInterrupt:
        print("interrupted; the first:", bytes(job.result(first)))
    job.cancel("enough of this")
    print("the others:", joins[0]())
    print("in the list:", next(row["error"] for row in cluster.jobs() if row["id"] == job.id))
    print("what had come:", bytes(job.result(first)))

    # An interrupt that comes while a message is taken costs the link: run still cancels its job, and what follows connects again.
    g, first, last = waiting("interrupted")
    id, submit = str(uuid.uuid4()), cluster.submit

    def submit_and_interrupt(*args, **named):
        job = submit(*args, **named)
        peer._line.link.receive = interrupt
        return job

    def interrupt():
        del peer._line.link.receive
        signal.raise_signal(signal.SIGINT)

    cluster.submit = submit_and_interrupt
    try:
        cluster.run(g, last, id=id, progress=False)
    except KeyboardInterrupt:
        print("run was interrupted")
    del cluster.submit
    try:
        cluster.job(id).wait()
    except cascade.JobCancelled as e:
        print("its job:", e)
    print("requests that wait:", [r for r, asked in peer._heard.items() if asked.line is not peer._line])

    broken = cluster.submit(waiting("broken")[0])
    watch = broken.watch()
    next(watch)
    peer._line.broke()
    cluster.jobs()  # connects again
    polls, polling = peer._poll, threading.Event()

    class Polling:
        """The wait of the thread that reads the new link."""

        def poll(self, *args):
            polling.set()
            return polls.poll(*args)

    peer._poll = Polling()
    join = together(cluster.job(broken.id).wait)
    polling.wait()
    try:
        for _ in watch:
            pass
    except ConnectionError as e:
        print("a link that broke:", str(e).replace(cluster.address, "ADDRESS"))
    peer._poll = polls
    broken.cancel("it goes on")
    print("what began after it:", join())

    sys.stdout.flush()  # or the child has it, too
    child = os.fork()
    if child == 0:
        for call in (cluster.jobs, job.wait, lambda: job.result(first), lambda: cluster.submit(g)):
            try:
                call()
            except RuntimeError as e:
                print("a child:", str(e).replace(cluster.address, "ADDRESS"), flush=True)
        cluster.close()
        with cascade.connect(cluster.address) as own:
            print("a child that connects:", own.job(job.id).status, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("its parent:", job.status)

    with cascade.connect(cluster.address) as other:
        job = other.submit(g, first, last)
        job.result(first)
        join = together(job.wait, *(lambda: job.result(last) for _ in range(3)))
    print("closed:", [said.replace(cluster.address, "ADDRESS") for said in join()])
    try:
        other.jobs()
    except ConnectionError as e:
        print("after it:", str(e).replace(cluster.address, "ADDRESS"))
    cluster.job(job.id).cancel()
shutil.rmtree(folder)
print("names:", sorted(set(dir(cascade)) ^ set(cascade.__all__)), all(hasattr(cascade, name) for name in dir(cascade)))
