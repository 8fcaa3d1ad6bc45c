package shm

import (
	"io/fs"
	"os"

	"github.com/cascade-run/cascade/internal/diskspace"
)

// System is the operating system as the store uses it. Every call carries a label, such as
// "create:reserve", so that a test can make exactly one of them fail. The zero value of a field means the
// real thing.
type System struct {
	Open    func(op, path string, flag int, perm fs.FileMode) (*os.File, error)
	Reserve func(op string, f *os.File, off, n int64) error // fallocate
	Truncate,
	Punch func(op string, f *os.File, n int64) error // set the size; give the first n bytes back
	Chmod  func(op, path string, perm fs.FileMode) error
	Rename func(op, from, to string) error
	Remove func(op, path string) error
	Read   func(op string, f *os.File, b []byte, off int64) (int, error)
	Write  func(op string, f *os.File, b []byte, off int64) (int, error)
	Free   func(op, dir string) (uint64, error)
}

func (s System) withDefaults() System {
	set := func(ok bool, f func()) {
		if !ok {
			f()
		}
	}
	set(s.Open != nil, func() {
		s.Open = func(_, path string, flag int, perm fs.FileMode) (*os.File, error) {
			return os.OpenFile(path, flag|noFollow, perm)
		}
	})
	set(s.Reserve != nil, func() { s.Reserve = func(_ string, f *os.File, off, n int64) error { return reserve(f, off, n) } })
	set(s.Truncate != nil, func() { s.Truncate = func(_ string, f *os.File, n int64) error { return f.Truncate(n) } })
	set(s.Punch != nil, func() { s.Punch = func(_ string, f *os.File, n int64) error { return punch(f, n) } })
	set(s.Chmod != nil, func() { s.Chmod = func(_, path string, perm fs.FileMode) error { return os.Chmod(path, perm) } })
	set(s.Rename != nil, func() { s.Rename = func(_, from, to string) error { return os.Rename(from, to) } })
	set(s.Remove != nil, func() { s.Remove = func(_, path string) error { return os.Remove(path) } })
	set(s.Read != nil, func() {
		s.Read = func(_ string, f *os.File, b []byte, off int64) (int, error) { return f.ReadAt(b, off) }
	})
	set(s.Write != nil, func() {
		s.Write = func(_ string, f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) }
	})
	set(s.Free != nil, func() { s.Free = func(_, dir string) (uint64, error) { return diskspace.Free(dir) } })
	return s
}
