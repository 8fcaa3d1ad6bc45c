//go:build linux

package python_test

import (
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// A program makes actors of its classes: what they return, raise and refuse, in which order and beside what they run
// is the golden file.
func TestPythonActors(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/actors.golden", prints(t, "testdata", env, python, "actors.py", programs(t), t.TempDir()))
}

// An actor ends when its process dies, when it is killed, with its last handle, its caller, the program and the agent; each
// says so to all calls that have not ended. A method that never returns, and 10,000 calls behind others, hold nothing.
func TestPythonActorsEnd(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/actorends.golden", prints(t, "testdata", env, python, "actorends.py", programs(t), t.TempDir()))
}
