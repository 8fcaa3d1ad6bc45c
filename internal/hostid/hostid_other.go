//go:build !linux

package hostid

// Resource is empty: agents run on Linux.
func Resource() string { return "" }
