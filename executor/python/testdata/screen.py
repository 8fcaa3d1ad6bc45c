"""Prints what a terminal is shown of texts: as text, on a line, and in the exceptions of a client."""

import json
import sys

from cascade import RequestError, TaskFailed, screen
from cascade.wire.messages import TaskError

shown = []
for text in json.loads(sys.argv[1]):
    failed, refused = TaskFailed(TaskError(task="a", message=text)), RequestError(2, text)
    assert failed.message == text and refused.args == (text,), "a program reads them as they are"
    shown.append({"text": screen.text(text), "line": screen.line(text), "failed": str(failed), "refused": str(refused)})
print(json.dumps(shown))
