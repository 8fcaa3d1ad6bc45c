// Package python holds the Python distribution cascade-run, whose import name is
// cascade: the executor of Python tasks (python -m cascade.executor) and the
// client. It is plain Python files; whoever starts an interpreter writes them to a
// folder and puts that on PYTHONPATH.
//
//	agent ── INTERPRETER -m cascade.executor ──▶ cascade/executor  tasks of one environment
//	                                              cascade/wire      messages and links, as docs/protocol.md says
//	                                              cascade           what users import
//
// It needs the packages pyzmq and msgpack, and NumPy only where a task uses it.
package python

import (
	"embed"
	"regexp"
)

// Requirements are the packages that the interpreter's environment must have.
// They are ordinary requirement specifiers (PEP 508).
func Requirements() []string { return []string{"pyzmq>=25", "msgpack>=1.0"} }

// Module is what an interpreter runs as an executor: INTERPRETER -m Module.
const Module = "cascade.executor"

// Files holds the folder cascade.
//
//go:embed cascade/*.py cascade/py.typed cascade/*/*.py
var Files embed.FS

//go:embed cascade/__init__.py
var names string

// Version is the number of the distribution, cascade.__version__. Programs have it too.
func Version() string {
	return regexp.MustCompile(`(?m)^__version__ = "(.*)"$`).FindStringSubmatch(names)[1]
}
