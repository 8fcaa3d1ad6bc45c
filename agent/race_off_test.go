//go:build linux && !race

package agent

// raced says that the race detector is on.
const raced = false
