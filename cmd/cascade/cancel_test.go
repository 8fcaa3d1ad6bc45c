package main

import "testing"

// The reason that a user gives for the end of a job is that which is told of its tasks.
func TestCancelReason(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	c := h.start("", "run", one.file)
	one.runs()
	h.expect(h.start("", "cancel", "last", "--reason", "the input is old"))
	h.expect(c, "exit 4", "the input is old")
}
