//go:build linux && check

package agent

// checked poisons freed memory and verifies the core after each step.
const checked = true
