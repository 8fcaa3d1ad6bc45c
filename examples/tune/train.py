"""Train a logistic regression on generated points, by stochastic gradient descent.

It is a program as Cascade runs it for each trial: it reads its configuration, continues its checkpoint, and reports
by lines of JSON.
"""

import json
import math
import os
import random
import sys

config = json.loads(os.environ["CASCADE_TUNE_CONFIG"])
points = random.Random(1)


def sample():
    x = [points.gauss(0, 1) for _ in range(8)]
    noise = points.gauss(0, 0.5)
    return x, 1 if x[0] - 2 * x[1] + 0.5 * x[2] + noise > 0 else 0


train, test = [sample() for _ in range(400)], [sample() for _ in range(400)]
weights, epoch = [0.0] * 8, 0

before = os.environ.get("CASCADE_TUNE_CHECKPOINT")
if before:
    with open(os.path.join(before, "state.json"), encoding="utf-8") as f:
        weights, epoch = json.load(f)


def guess(x):
    z = sum(w * v for w, v in zip(weights, x))
    return 1 / (1 + math.exp(-max(-30, min(30, z))))


while epoch < 27:
    for x, y in train:
        slip = y - guess(x)
        weights = [w * (1 - config["lr"] * config["decay"]) + config["lr"] * slip * v for w, v in zip(weights, x)]
    epoch += 1
    loss = -sum(math.log(max(1e-9, guess(x) if y else 1 - guess(x))) for x, y in test) / len(test)
    report = {"loss": loss}
    if epoch % 3 == 0:
        folder = os.path.join(os.environ["CASCADE_TUNE_FOLDER"], "state")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "state.json"), "w", encoding="utf-8") as f:
            json.dump([weights, epoch], f)
        report["checkpoint"] = folder
    print(json.dumps(report))
    sys.stdout.flush()
    sys.stdin.readline()  # Cascade says when to go on
