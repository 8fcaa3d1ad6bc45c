// Package safedir makes and checks folders that are trusted by their path: those of sockets, memory, keys,
// state and caches. If another user could put a folder or a link there first, or change what is in it, this
// process would serve, read or run files of that user.
//
//	path ── one name after the other, from an open folder ──▶ last one: kind, owner, mode
//	         │ made with mode 0700 where it is missing
//	         └ a link is followed only when it is ours or root's
//
// All checks use open folders (openat, fstat), so that nothing can be exchanged between check and use. Callers
// use the path afterwards: that is safe, because no folder on the way lets other users rename what is below it.
//
// It also removes trees, see Remove.
package safedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Private makes the folder at path, or requires that it is this user's and that no other can enter it.
func Private(path string) error { return check(path, true) }

// Own makes the folder at path, or requires that it is this user's or root's, and not one that everybody can
// write to. Root may use folders of others.
func Own(path string) error { return check(path, false) }

// maxLinks is how many links a path may lead through, as for the kernel.
const maxLinks = 40

// walk is a way from the root folder to a path.
type walk struct {
	fd      int
	at      string // of the folder fd
	is      unix.Stat_t
	names   []string // that are still to go
	links   int
	private bool
}

func check(path string, private bool) error {
	fail := func(err error) error { return fmt.Errorf("folder %s: %w", path, err) }
	full := path
	if !filepath.IsAbs(path) {
		wd, err := unix.Getwd()
		if err != nil {
			return fail(err)
		}
		full = wd + "/" + path
	}
	// Callers join names to the path, which takes "link/.." for nothing; the kernel follows the link first.
	if err := unambiguous(full); err != nil {
		return fail(err)
	}
	for _, way := range slices.Compact([]string{full, filepath.Clean(full)}) {
		if err := visit(way, private); err != nil {
			return fail(err)
		}
	}
	return nil
}

// unambiguous requires that no ".." of a path stands behind a link that leads elsewhere.
func unambiguous(path string) error {
	names := strings.Split(path, "/")
	for i, name := range names {
		if name != ".." {
			continue
		}
		way := strings.Join(names[:i+1], "/")
		followed, err := os.Stat(way)
		if err != nil {
			continue // it is made, or what is wrong is found, as the path is followed
		}
		clean := filepath.Clean(way)
		if joined, err := os.Stat(clean); err != nil || !os.SameFile(followed, joined) {
			return fmt.Errorf("%s is another folder than %s, as .. stands behind a link: write the path without it", way, clean)
		}
	}
	return nil
}

// visit walks along a path and checks each folder on it.
func visit(path string, private bool) error {
	w := &walk{fd: -1, private: private, names: split(path)}
	defer func() { _ = unix.Close(w.fd) }() // it was only looked at
	if err := w.root(); err != nil {
		return err
	}
	for len(w.names) > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.last()
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// root restarts at the root folder.
func (w *walk) root() error {
	fd, err := unix.Open("/", openFlags, 0)
	if err != nil {
		return fmt.Errorf("open /: %w", err)
	}
	return w.enter(fd, "/")
}

// enter goes on from the folder fd.
func (w *walk) enter(fd int, at string) error {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	w.fd, w.at = fd, at
	if err := unix.Fstat(fd, &w.is); err != nil {
		return fmt.Errorf("look at %s: %w", at, err)
	}
	return nil
}

// step goes into the next folder, or to where a link leads.
func (w *walk) step() error {
	name := w.names[0]
	at := filepath.Join(w.at, name)
	var st unix.Stat_t
	err := unix.Fstatat(w.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(w.fd, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", at, err)
		}
		err = unix.Fstatat(w.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", at, err)
	}
	w.names = w.names[1:]
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return w.follow(name, at, &st)
	}
	fd, err := unix.Openat(w.fd, name, openFlags|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s is no folder: remove it, or choose another path", at)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", at, err)
	}
	if err := w.enter(fd, at); err != nil {
		return err
	}
	return w.between()
}

func (w *walk) follow(name, at string, st *unix.Stat_t) error {
	if int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Errorf("%s is a link that user %d made: remove it, or choose another path", at, st.Uid)
	}
	if w.links++; w.links > maxLinks {
		return fmt.Errorf("%s: %w", at, unix.ELOOP)
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.fd, name, target)
	if err != nil {
		return fmt.Errorf("read link %s: %w", at, err)
	}
	to := string(target[:n])
	w.names = append(split(to), w.names...)
	if filepath.IsAbs(to) {
		return w.root()
	}
	return nil
}

// between checks a folder on the way, in which everybody could exchange what is below it.
func (w *walk) between() error {
	if len(w.names) > 0 && w.is.Mode&everybody != 0 && w.is.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%s has mode %04o and everybody could exchange what is in it: %s", w.at, w.is.Mode&0o7777, w.fix())
	}
	return nil
}

const (
	everybody = 0o002 // may write
	others    = 0o077 // may do something
)

func (w *walk) ours() bool { return int(w.is.Uid) == os.Geteuid() }

// fix is what helps against a folder that everybody can write to.
func (w *walk) fix() string {
	if w.ours() {
		return "run chmod o-w " + w.at
	}
	return "choose a folder of your own in it, or another path"
}

func (w *walk) last() error {
	mode := w.is.Mode & 0o7777
	switch {
	case !w.ours() && (w.private || w.is.Uid != 0 && os.Geteuid() != 0):
		return fmt.Errorf("%s belongs to user %d, not to us (%d): remove it, or choose another path", w.at, w.is.Uid, os.Geteuid())
	case w.private && mode&others != 0:
		return fmt.Errorf("%s has mode %04o and others could enter it: run chmod 700 %s", w.at, mode, w.at)
	case mode&everybody != 0:
		return fmt.Errorf("%s has mode %04o and everybody could write to it: %s", w.at, mode, w.fix())
	}
	return nil
}
