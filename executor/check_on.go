//go:build check

package executor

// checked turns on tests of what tasks promise, which cost time.
const checked = true
