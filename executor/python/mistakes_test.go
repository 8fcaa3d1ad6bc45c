//go:build linux

package python_test

import "testing"

// Half of a character in an error, a traceback or a reason is written as an escape: it ends no executor and no link.
func TestHalves(t *testing.T) { program(t, "half", programs(t)) }

// What a call cannot take is refused with the argument's name before anything is sent; one text is a list of it, and paths are texts.
func TestWrongArguments(t *testing.T) { program(t, "wrong", programs(t)) }

// A value of a class of the program itself travels as its functions do, whether it is handed over or sent.
func TestOwnClasses(t *testing.T) { program(t, "own", programs(t)) }
