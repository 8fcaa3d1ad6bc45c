//go:build linux && !check

package agent

const checked = false
