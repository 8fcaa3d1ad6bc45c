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

// What a call cannot take is refused with the argument's name before anything is sent; one text is a list of it, and paths are texts.
func TestWrongArguments(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/wrong.golden", prints(t, ".", env, python, "testdata/wrong.py", programs(t)))
}

// A value of a class of the program itself travels as its functions do, whether it is handed over or sent.
func TestOwnClasses(t *testing.T) {
	needs.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/own.golden", prints(t, ".", env, python, "testdata/own.py", programs(t)))
}
