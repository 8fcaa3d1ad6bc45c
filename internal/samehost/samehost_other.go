//go:build !linux

package samehost

// Resource is empty: agents run on Linux.
func Resource() string { return "" }
