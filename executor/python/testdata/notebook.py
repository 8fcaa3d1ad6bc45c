"""A notebook in a real kernel: its functions travel by value, progress is an output that changes, a failure is raised in its cell."""

import re
import sys

import nbformat.v4 as new
from nbclient import NotebookClient

CELLS = [
    f"""import cascade
cluster = cascade.local(store="64MiB", programs={sys.argv[1]!r})
with cascade.Graph("first") as g:  # builds the environment of all, of which it is told who waits for it
    g.add(lambda: 0)
cluster.run(g, progress=False)
factor = 3""",
    """def scaled(x):
    return x * factor

with cascade.Graph("cell") as g:
    y = g.add(scaled, 14)
job = cluster.submit(g, y)
job.wait()
job.result(y)""",
    """with cascade.Graph("fails") as g:
    g.add(lambda: 1 / 0)
try:
    cluster.run(g, progress=False)
except ZeroDivisionError as e:
    print("caught", type(e).__name__, "of kind", e.kind, "from", e.message)
cluster.close()""",
    f"""session = cascade.init(programs={sys.argv[1]!r}, cpu=2, log_to_driver=False)
@cascade.remote
def times(x):
    return x * factor

refs = cascade.progress(times.map(range(3)), name="times")
cascade.get(refs)""",
    """@cascade.remote
def times(x):  # another one
    return times.__name__, x, factor
factor = 4
[await times.remote(5), await times.remote(6)]""",
    """try:
    cascade.get(cascade.remote(lambda: 1 / 0).remote())
except ZeroDivisionError as e:
    print("caught", e)
cascade.shutdown()""",
]

notebook = new.new_notebook(cells=[new.new_code_cell(text) for text in CELLS])
NotebookClient(notebook, timeout=600, startup_timeout=600, iopub_timeout=600, kernel_name="python3").execute()
for i, cell in enumerate(notebook.cells):
    for output in cell.outputs:
        text = output.text if output.output_type == "stream" else output.data["text/plain"]
        text = re.sub("(?m)^(building )?environment .*\n", "", text)  # it is looked at for more than a second when this host is busy
        if text:
            print(f"cell {i}: {output.output_type}: {text.strip()}")
