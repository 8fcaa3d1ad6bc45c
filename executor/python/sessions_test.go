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
