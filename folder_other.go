//go:build !linux

package cascade

import "syscall"

func kernelFolder() (string, error) { return syscall.Getwd() }
