//go:build !linux

package command

import "syscall"

// Executors run on Linux; this lets the packages above compile elsewhere.

func sysAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func awaitExit(int) error { return syscall.ENOSYS }

func adopt() (map[int]bool, error) { return nil, nil }

func sweep(map[int]bool) error { return nil }

func treeMemory(int) uint64 { return 0 }

// PrivateMemory is not measured here.
func PrivateMemory() uint64 { return 0 }

// shield does nothing here.
type shield struct{}

func (*shield) behind(_ []string, start func() error) error { return start() }

func (*shield) close() {}
