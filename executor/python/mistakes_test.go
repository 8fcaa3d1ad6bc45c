//go:build linux

package python_test

import (
	"testing"

	"github.com/cascade-run/cascade/internal/needs"
)

// Half of a character in an error, a traceback or a reason is written as an escape: it ends no executor and no link.
func TestHalves(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/half.golden", prints(t, ".", env, python, "testdata/half.py", programs(t)))
}
