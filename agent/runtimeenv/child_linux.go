package runtimeenv

import "syscall"

// childAttr gives a tool a group of its own, and lets it die with the thread that started it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
