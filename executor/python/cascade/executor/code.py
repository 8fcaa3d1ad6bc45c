"""The files of the job, as the user knows them: by their names below working_dir and py_modules."""

from __future__ import annotations

import errno
import os

# The interpreter of the program that has started the cluster, when its functions run in that.
OWN = "CASCADE_PROGRAM_PYTHON"

_SHARED = "working_dir and py_modules are shared by tasks and cannot be written to"
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def missing(error: BaseException) -> str:
    """What to do about a module that is not there; "" for other errors."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name is None:
        return ""
    own = os.environ.get(OWN)
    if own:
        return f"; install its package: {own} -m pip install {name.partition('.')[0]}"
    return f"; add the package of {name} to pip of the environment, or its file to py_modules"


class Code:
    """The folders that hold the copies of working_dir and py_modules."""

    def __init__(self, folders: str) -> None:
        """folders has colons between."""
        self._folders = [folder + os.sep for folder in folders.split(os.pathsep) if folder]

    def named(self, text: str) -> str:
        """A text in which files have the user's names."""
        for folder in self._folders:
            text = text.replace(folder, "")
        return text

    def hint(self, error: BaseException) -> str:
        """Where to write, for who wrote to such a file; "" for other errors."""
        if not isinstance(error, OSError) or error.errno not in _REFUSED or not self._folders:
            return ""
        names = [os.path.abspath(os.fsdecode(n)) for n in (error.filename, error.filename2) if isinstance(n, (str, bytes))]
        if not any((name + os.sep).startswith(folder) for name in names for folder in self._folders):
            return ""
        return f": {_SHARED}: write to cascade.current().scratch or .dir"
