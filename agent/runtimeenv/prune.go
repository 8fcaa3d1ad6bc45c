package runtimeenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Limits say how much a cache keeps of what each plugin made. Environments that a living process uses stay anyway.
type Limits struct {
	Bytes int64         // of what one plugin made; hard links count once; 0 means 10 GiB, negative nothing
	Count int           // entries of one plugin; 0 means 64
	Age   time.Duration // since an entry was used last; 0 means 90 days
}

func (l Limits) withDefaults() Limits {
	return Limits{max(0, cmp.Or(l.Bytes, 10<<30)), cmp.Or(l.Count, 64), cmp.Or(l.Age, 90*24*time.Hour)}
}

// DefaultDir returns the folder of the user's cache, which all agents of a user share.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(dir, "cascade", "environments"), nil
}

// buildAge is after how long the folder of a build that was killed is removed.
const buildAge = 24 * time.Hour

// use marks an environment as used now, and by us until release. A process that
// prunes leaves it alone: it needs the lock that we share.
func (c *Cache) use(ctx context.Context, dir string) error {
	c.mu.Lock()
	_, held := c.held[dir]
	c.mu.Unlock()
	if !held {
		if err := c.ownFolder(filepath.Dir(dir)); err != nil {
			return fmt.Errorf("make cache folder: %w", err)
		}
		file, err := lockFile(ctx, dir+".use", flock.Shared) // it may wait: others of this Cache go on
		if err != nil {
			return err
		}
		c.mu.Lock()
		if _, held = c.held[dir]; !held {
			c.held[dir] = file
		}
		c.mu.Unlock()
		if held { // another caller was faster, and has the same lock
			file.Close()
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir+".use", now, now); err != nil {
		return fmt.Errorf("note the use of an environment: %w", err)
	}
	return nil
}

// Close lets go of every environment: others may prune them.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for _, file := range c.held {
		all = append(all, file.Close())
	}
	clear(c.held)
	return errors.Join(all...)
}

// environment is one folder of the cache.
type environment struct {
	plugin Plugin
	dir    string
	Record
}

// List returns what is in the cache, what was used last first.
func (c *Cache) List() ([]Record, error) {
	all, err := c.list(time.Now())
	out := make([]Record, len(all))
	for i, e := range all {
		out[i] = e.Record
		if unlock, err := lockNow(e.dir + ".use"); err == nil {
			out[i].InUse = unlock == nil
			if unlock != nil {
				unlock()
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return b.Used.Compare(a.Used) })
	return out, err
}

// lockNow takes a lock file alone, or returns nil when another process has it.
func lockNow(path string) (unlock func(), err error) {
	file, err := flock.Try(path, flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// Prune removes unused environments, of each plugin the least recently used first,
// until the rest is within the limits. It may run beside other processes on the same
// folder. It returns the records of those that it removed.
func (c *Cache) Prune(limits Limits, now time.Time) (removed []Record, err error) {
	limits = limits.withDefaults()
	all, err := c.list(now)
	slices.SortStableFunc(all, func(a, b environment) int {
		if a.plugin.Name() != b.plugin.Name() {
			return cmp.Compare(b.plugin.Priority(), a.plugin.Priority()) // what others lie on goes last
		}
		return a.Used.Compare(b.Used)
	})
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(e environment) bool { return e.plugin != all[0].plugin })
		if n < 0 {
			n = len(all)
		}
		gone, e2 := pruneOne(all[:n], limits, now)
		removed, err, all = append(removed, gone...), errors.Join(err, e2), all[n:]
	}
	return removed, err
}

// pruneOne prunes what one plugin made, in order of use.
func pruneOne(all []environment, limits Limits, now time.Time) (removed []Record, err error) {
	var total int64
	for _, e := range all {
		total += e.Bytes
	}
	var shared *links
	if total > limits.Bytes {
		shared = newLinks(all)
		total = shared.bytes
	}
	left := len(all)
	for _, e := range all {
		if total <= limits.Bytes && left <= limits.Count && now.Sub(e.Used) <= limits.Age {
			break
		}
		bytes := e.Bytes
		if shared != nil {
			bytes = shared.alone(e.dir)
		}
		gone, e2 := remove(e)
		if err = errors.Join(err, e2); gone {
			removed = append(removed, e.Record)
			left--
			total -= bytes
			if shared != nil {
				shared.drop(e.dir)
			}
		}
	}
	return removed, err
}

// inode is a file, by whatever names.
type inode struct{ dev, ino uint64 }

// links knows which folders have which files: one that several have goes with the last.
type links struct {
	bytes int64 // of all files, each once
	files map[string]map[inode]int64
	count map[inode]int
}

func newLinks(all []environment) *links {
	l := &links{files: map[string]map[inode]int64{}, count: map[inode]int{}}
	for _, e := range all {
		files := map[inode]int64{}
		walkFiles(e.dir, func(info fs.FileInfo) {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				files[inode{uint64(stat.Dev), stat.Ino}] = info.Size() //nolint:unconvert // Dev has another type on other systems
			}
		})
		for id, size := range files {
			if l.count[id]++; l.count[id] == 1 {
				l.bytes += size
			}
		}
		l.files[e.dir] = files
	}
	return l
}

// alone returns the bytes of what only this folder has.
func (l *links) alone(dir string) (bytes int64) {
	for id, size := range l.files[dir] {
		if l.count[id] == 1 {
			bytes += size
		}
	}
	return bytes
}

func (l *links) drop(dir string) {
	for id := range l.files[dir] {
		l.count[id]--
	}
}

// list finds what is in the cache, and removes what builds left that were killed.
func (c *Cache) list(now time.Time) ([]environment, error) {
	var all []environment
	var failed []error
	for _, p := range c.plugins {
		parent := filepath.Join(c.dir, p.Name())
		entries, err := os.ReadDir(parent)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list environments: %w", err)
		}
		for _, entry := range entries {
			path := filepath.Join(parent, entry.Name())
			info, err := entry.Info()
			switch {
			case err != nil || !entry.IsDir(): // gone meanwhile, or a lock
			case strings.HasPrefix(entry.Name(), "."):
				if now.Sub(info.ModTime()) > buildAge || abandoned(parent, entry.Name()) {
					failed = append(failed, safedir.Remove(path))
				}
			default:
				if made, err := isMade(p, path); err != nil || !made {
					failed = append(failed, err, removeHalf(path))
					continue
				}
				e := environment{plugin: p, dir: path, Record: readRecord(p.Name(), path)}
				e.Used = info.ModTime()
				if mark, err := os.Stat(path + ".use"); err == nil {
					e.Used = mark.ModTime()
				}
				all = append(all, e)
			}
		}
	}
	return all, errors.Join(failed...)
}

// abandoned tells whether a build's folder is that of a dead process: the key's lock is free.
func abandoned(parent, name string) bool {
	key, ok := strings.CutPrefix(name, ".build-")
	i := strings.LastIndexByte(key, '-')
	if !ok || i < 0 {
		return false
	}
	unlock, err := lockNow(filepath.Join(parent, key[:i]+".lock"))
	if err != nil || unlock == nil {
		return false
	}
	unlock() // who builds it now makes a folder of its own
	return true
}

// removeHalf removes what a plugin that works in place has half made, unless it is at it.
func removeHalf(dir string) error {
	unlock, err := lockNow(dir + ".lock")
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if made, err := exists(dir + recordSuffix); err != nil || made {
		return err
	}
	return safedir.Remove(dir)
}

// remove removes an environment unless a process uses it.
func remove(e environment) (bool, error) {
	unlock, err := lockNow(e.dir + ".use")
	if err != nil || unlock == nil {
		return false, err
	}
	defer unlock()
	if err = e.plugin.Delete(e.dir); err == nil {
		// Out of its place first: an environment in place, with its record, is always complete. The
		// lock file stays, a process may be waiting for it; it is empty.
		trash := filepath.Join(filepath.Dir(e.dir), ".removed-"+filepath.Base(e.dir))
		err = errors.Join(safedir.Remove(trash), os.Rename(e.dir, trash), safedir.Remove(trash), forget(e.dir))
	}
	if err != nil {
		return false, fmt.Errorf("prune environment %s: %w", e.dir, err)
	}
	return true, nil
}

// sizeOf returns the bytes of the files below a folder.
func sizeOf(dir string) (bytes int64) {
	walkFiles(dir, func(info fs.FileInfo) { bytes += info.Size() })
	return bytes
}

func walkFiles(dir string, visit func(fs.FileInfo)) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile: it counts no more
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			visit(info)
		}
		return nil
	})
}
