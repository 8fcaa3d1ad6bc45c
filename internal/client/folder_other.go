//go:build !linux

package client

import "syscall"

func kernelFolder(*[4096]byte) ([]byte, error) {
	wd, err := syscall.Getwd()
	return []byte(wd), err
}
