"""The text of a job file: what it names on this host is sealed, and all else stays as it is written.

    text ──▶ environments and inputs as plain values ──seal──▶ packages and hashes ──▶ text, with these in their places

Lines stay where they are: the controller's messages name the places of the file.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

_PLACES = ("working_dir", "binary", "py_modules")
_NAMES_FILES = re.compile(rf"""["']?\b({"|".join(_PLACES)}|files?)["']?\s*:""")

_Edit = tuple[Any, str]  # a node, and what is written in its place
Seal = Callable[[dict[str, Any]], dict[str, Any]]


# What JSON has as it is, and YAML reads as a break of line or not at all.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def written(value: Any) -> str:
    """A value as JSON that a reader of YAML takes for the same."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"the text {e.object[e.start : e.end]!r} is half a character, which no file has") from None
    return _ESCAPED.sub(lambda c: f"\\u{ord(c.group()):04x}", text)


def sealed(text: str, dir: str, seal: Seal) -> str:
    """The text with what seal makes of its environments and inputs. Patterns of inputs refer to dir."""
    try:
        document = json.loads(text)
    except ValueError:
        return _sealed(text, dir, seal)
    return written(seal(document)) if isinstance(document, dict) else text


def _sealed(text: str, dir: str, seal: Seal) -> str:
    if not _NAMES_FILES.search(text):
        return text
    try:
        import yaml
    except ImportError:
        raise ImportError(
            "the files that a job file in YAML names are sent with it: that takes PyYAML (pip install pyyaml)"
        ) from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text  # the controller says what is wrong with it, and where
    sections = {key: node for key, node in _pairs(root) if key in ("environments", "inputs")}
    document = {key: {name: _plain(node) for name, node in _pairs(section)} for key, section in sections.items()}
    if "inputs" in document:
        read = {name: _input(_plain(node), dir) for name, node in _pairs(sections["inputs"])}
        document["inputs"] = {name: settings for name, settings in read.items() if settings is not None}
    done = seal(document)
    edits: list[_Edit] = []
    for name, node in _pairs(sections.get("environments")):
        edits += _environment(node, document["environments"][name], done["environments"][name])
    for name, node in _pairs(sections.get("inputs")):
        if name in document["inputs"]:
            edits.append((node, written(done["inputs"][name])))
    for node, new in sorted(edits, key=lambda edit: edit[0].start_mark.index, reverse=True):
        text = _replaced(text, node, new)
    return text


def _environment(node: Any, before: Any, after: Any) -> Iterator[_Edit]:
    """What was sealed of an environment."""
    for key, value in _pairs(node):
        if key not in _PLACES or before[key] == after[key]:
            continue
        if key == "binary":  # its platform may have become known
            yield value, written(after[key])
            continue
        if isinstance(before[key], str):
            yield value, written(after[key] if isinstance(after[key], str) else after[key][0])
            continue
        for item, old, new in zip(value.value, before[key], after[key], strict=True):
            if old != new:
                yield item, written(new)


def _input(settings: Any, dir: str) -> dict[str, Any] | None:
    """An input with all its files by name; None for one that is left to the controller: a URL, a parameter, a mistake."""
    if not isinstance(settings, dict):
        return None
    if "files" not in settings:
        return settings if _is_path(settings.get("file")) else None
    files = settings["files"]
    if _is_path(files):
        found = glob.glob(files.replace("$${", "${"), root_dir=dir)
        files = sorted(path.replace("${", "$${") for path in found if os.path.isfile(os.path.join(dir, path)))
        if not files:
            raise ValueError(f"inputs: no file is like {os.path.join(dir, settings['files'])}")
    if not isinstance(files, list):
        return None
    entries = [{"file": f} if isinstance(f, str) else f for f in files]
    if not all(isinstance(e, dict) and ("url" in e or _is_path(e.get("file"))) for e in entries):
        return None
    return {**settings, "files": entries}


def _is_path(value: Any) -> bool:
    """Whether it is a text without parameters."""
    return isinstance(value, str) and "${" not in value.replace("$${", "")


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a mapping with their nodes; nothing of other nodes, with which the controller finds fault."""
    if node is not None and node.id == "mapping":
        for key, value in node.value:
            if key.id == "scalar":
                yield key.value, value


def _plain(node: Any) -> Any:
    """A node as JSON would have it; what else YAML knows (dates) stays text."""
    if node.id == "mapping":
        return {key: _plain(value) for key, value in _pairs(node)}
    if node.id == "sequence":
        return [_plain(item) for item in node.value]
    match node.tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return node.value.lower() in ("true", "yes", "on")
        case "int" | "float":
            try:
                return json.loads(node.value)
            except ValueError:  # 0x10, 1_000: it is a number in few places
                return node.value
    return node.value


def _replaced(text: str, node: Any, new: str) -> str:
    """The text with another value in a node's place, on as many lines."""
    start, end = node.start_mark.index, node.end_mark.index
    old = text[start:end]
    properties = re.match(r"(?:[&!]\S*\s+)*", old)  # an anchor, a tag
    start += properties.end() if properties else 0
    kept = old[len(old.rstrip()) :]  # a mapping in lines ends where the next key begins
    broken = old.rstrip().count("\n")
    if new[0] == "{" and broken:
        new = "{" + ("\n" + " " * (node.start_mark.column + 1)) * broken + new[1:]
    elif broken:
        new = '"' + ("\\\n" + " " * (node.start_mark.column + 1)) * broken + new[1:]
    return text[:start] + new + kept + text[end:]
