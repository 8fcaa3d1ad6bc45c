"""What becomes of the text of job files that the client submits; each change is a case."""

import os
import shutil
import tempfile

from cascade import inputs, jobtext, packages

folder = tempfile.mkdtemp()
for name in ("w/a", "m.py", "g.txt", "h.txt"):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(name)


def seal(document):
    """As a submit does, without a controller."""
    out = dict(document)
    if "environments" in out:
        out["environments"] = packages.seal(out["environments"], folder)[0]
    if "inputs" in out:
        out["inputs"] = inputs.seal(out["inputs"], folder, lambda: "")[0]
    return out


LARGE = """job: größe
params: {p: x}
environments:
  e:  # what stands beside stays
    python:
      version: 3.12
    working_dir: w   # a folder
    py_modules:
      - m.py
      - nothing.py
    env: {A: yes}
  f: {python: {}, py_modules: m.py, source: .}
  g: {python: {}, py_modules: [&a m.py, "m.py", "${params.p}"]}
inputs:
  one: {file: g.txt, retries: 2}
  many:
    # both
    files: "*.txt"
    resources:
      cpu: 0.5

  far: {url: "http://x/y"}
  named: {file: "${params.p}"}
  listed:
    files:
      - g.txt
      - {file: h.txt}
tasks:
  x: {run: "e:m.f", in: {a: one}}
"""
done = jobtext.sealed(LARGE, folder, seal)
for number, (before, after) in enumerate(zip(LARGE.split("\n"), done.split("\n"), strict=True), 1):
    if before != after:
        for word in after.split('"'):
            if len(word) > 64:
                after = after.replace(word, word[:15] + "..." + word[word.rfind("/") :] if "/" in word else word[:7] + "...")
        print(f"{number:2}: {after.replace(folder, 'FOLDER').rstrip()}")

print(jobtext.sealed('{"environments": {"e": {"working_dir": "w"}}}', folder, seal)[:60])
for text in ("a: [", "[]", "x", "environments: 3 # file:", "environments: [working_dir: 3]", "inputs: {a: {files: [3]}}",
             "inputs: {a: {file: 3}}", "inputs: {a: {files: '${x}'}}",
             "environments: {e: {working_dir: [w], py_modules: {a: 1}}}", "inputs:", "environments: {e: working_dir}", "[file: 3]"):  # fmt: skip
    print("left to the controller:" if jobtext.sealed(text, folder, seal) == text else "changed:", text)
for text in ("inputs: {a: {files: '*.none'}}", "inputs: {a: {file: none.txt}}", "environments: {e: {working_dir: m.py}}"):
    try:
        jobtext.sealed(text, folder, seal)
    except ValueError as e:
        print("refused:", str(e).replace(folder, "FOLDER"))
shutil.rmtree(folder)
