"""What a user does with the client, as a transcript."""

import sys

import numpy as np
import steps

import cascade

print("outside of a graph:", steps.stats(x=np.array([1.0, 3.0])))

with cascade.Graph("names") as g:
    made = [g.add(steps.ramp, 1, task_name=name) for name in ["", "", "", "ramp-5", "", "", "other"]]
    print("names:", *(ref.name for ref in made))

factor = 3  # travels with the function below


def scaled(x):
    return x * factor


with cascade.local(store="256MiB", programs=sys.argv[1]) as cluster:
    with cascade.Graph("values", pip=["numpy"]) as g:
        x = steps.ramp(100_000)
        mean, stddev = steps.stats(x=x)
        y = g.add(scaled, x)  # of __main__: sent by value
        parts = steps.count(n=4)
        both = steps.total(parts=[x, y])
        series = steps.total(parts=parts)
        size = g.command("wc -c < ${in.x} | tr -d ' \n' > ${out.n}", x=y, out=["n"])
    job = cluster.submit(g, mean, stddev, y, both, series, size)
    job.wait()
    print("mean and standard deviation:", job.result(mean), round(job.result(stddev), 3))
    print("array:", job.result(y)[:3], job.result(y).shape, "writeable:", job.result(y).flags.writeable)
    print("sums:", job.result(both), job.result(series))
    print("a command's:", bytes(job.result(size)))
    print("status:", job.status)
    print("the same again:", cluster.run(g, mean))

    with cascade.Graph("mistakes", pip=["numpy"]) as g:
        steps.fail(x=1.5)
    job = cluster.submit(g)
    try:
        job.wait()
    except ValueError as e:
        print("caught", type(e).__name__, "of task", e.task, "kind", e.kind, "message", e.message)
        print("its last line:", e.stack.splitlines()[-1])
        print("it printed:", e.output.strip(), "/", job.logs("fail").strip())

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

    try:
        cluster.submit("job: broken\ntasks:\n  a: {run: nothing:f, otu: [x]}\n")
    except cascade.RequestError as e:
        print("refused:", e)
    try:
        g.add(steps.ramp, n=np.zeros(3))
    except TypeError as e:
        print("refused:", e)

    with cascade.connect(cluster.address) as other:
        print("another client:", other.job(job.id).status, "of", len(other.jobs()), "jobs")
