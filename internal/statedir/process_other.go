//go:build !linux

package statedir

// Daemons run on Linux; this lets the packages above compile elsewhere.

// Kill ends nothing here.
func (r Record) Kill() (bool, error) { return false, nil }

func boot() string { return "" }

func startTime(int) (uint64, error) { return 0, nil }
