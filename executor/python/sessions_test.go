//go:build linux

package python_test

import (
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A program calls functions, by name and by value, from all of its threads; what it prints is the golden file.
func TestProgramCalls(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/session.golden", prints(t, "testdata", env, python, "session.py", programs(t), t.TempDir()))
}

// A session that is lost or cancelled says why to all that wait; one that is interrupted goes on.
func TestProgramLosesSession(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/sessionends.golden", prints(t, "testdata", env, python, "sessionends.py", programs(t), t.TempDir()))
}

// On a cluster that runs, functions are in an environment of their own; modules that are not in it go by value.
func TestProgramOnCluster(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/sessionon.golden", prints(t, "testdata", env, python, "sessionon.py", programs(t)))
}

// Ctrl-C at any time takes no end of a call away from a program, and its session goes on.
func TestProgramIsInterrupted(t *testing.T) { program(t, "interrupts", programs(t)) }

// A function by value is loaded once while it is used; another version of Python, and a module that is not there, are told
// in a sentence. Options have Ray's names too.
func TestFunctionsByValue(t *testing.T) { program(t, "byvalue") }
