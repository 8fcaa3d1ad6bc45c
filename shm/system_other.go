//go:build !linux

package shm

import (
	"errors"
	"os"
	"unsafe"
)

const noFollow = 0

// DefaultRoot has no meaning here: agents and executors run on Linux.
const DefaultRoot = ""

func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }
func punch(*os.File, int64) error          { return errors.ErrUnsupported }
func lock(*os.File) error                  { return errors.ErrUnsupported }
func viewed(*os.File) bool                 { return true }
func populate([]byte)                      {}
func isCrossDevice(error) bool             { return false }
func links(os.FileInfo) uint64             { return 1 }

func move(unsafe.Pointer, int64, unsafe.Pointer) error  { return errors.ErrUnsupported }
func leave(unsafe.Pointer, int64, unsafe.Pointer) error { return errors.ErrUnsupported }
func guard(unsafe.Pointer, int64) bool                  { return false }
