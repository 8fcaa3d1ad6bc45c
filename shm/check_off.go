//go:build !check

package shm

// checked is off: see check_on.go.
const checked = false
