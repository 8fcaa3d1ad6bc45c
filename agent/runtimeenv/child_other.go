//go:build !linux

package runtimeenv

import "syscall"

// childAttr gives a tool a group of its own. No agent runs here: environments are only listed and pruned.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
