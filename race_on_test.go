//go:build race

package cascade_test

// raced says that the race detector is on.
const raced = true
