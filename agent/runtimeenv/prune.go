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
)

// Limits say how much a cache keeps. What a living process uses stays anyway.
type Limits struct {
	Bytes int64         // of all environments together; 0 means 8 GiB
	Count int           // environments; 0 means 64
	Age   time.Duration // since an environment was used last; 0 means 90 days
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Bytes, 8<<30), cmp.Or(l.Count, 64), cmp.Or(l.Age, 90*24*time.Hour)}
}

// buildAge is after how long the folder of a build that was killed is removed.
const buildAge = 24 * time.Hour

// use marks an environment as used now, and by us until release. A process that
// prunes leaves it alone: it needs the lock that we share.
func (c *Cache) use(ctx context.Context, dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.held[dir]; !held {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return fmt.Errorf("make cache folder: %w", err)
		}
		file, err := lockFile(ctx, dir+".use", syscall.LOCK_SH)
		if err != nil {
			return err
		}
		c.held[dir] = file
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
	bytes  int64
	used   time.Time
}

// Prune removes environments that nobody uses, those first that were used longest
// ago, until the rest is within the limits. It may run beside other processes on the
// same folder. It returns how many it removed.
func (c *Cache) Prune(limits Limits, now time.Time) (removed int, err error) {
	limits = limits.withDefaults()
	all, err := c.list(now)
	var total int64
	for _, e := range all {
		total += e.bytes
	}
	slices.SortFunc(all, func(a, b environment) int { return a.used.Compare(b.used) })
	left := len(all)
	for _, e := range all {
		if total <= limits.Bytes && left <= limits.Count && now.Sub(e.used) <= limits.Age {
			break
		}
		gone, e2 := remove(e)
		if err = errors.Join(err, e2); gone {
			removed++
			left--
			total -= e.bytes
		}
	}
	return removed, err
}

// list finds the environments, and removes folders of builds that were killed.
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
				if now.Sub(info.ModTime()) > buildAge {
					failed = append(failed, os.RemoveAll(path))
				}
			default:
				e := environment{plugin: p, dir: path, bytes: sizeOf(path), used: info.ModTime()}
				if mark, err := os.Stat(path + ".use"); err == nil {
					e.used = mark.ModTime()
				}
				all = append(all, e)
			}
		}
	}
	return all, errors.Join(failed...)
}

// remove removes an environment unless somebody uses it.
func remove(e environment) (bool, error) {
	file, err := os.OpenFile(e.dir+".use", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("prune environments: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err == nil {
		err = e.plugin.Delete(e.dir)
	}
	if err == nil {
		// Out of its place first: what is there is always complete. The lock file
		// stays, somebody may be waiting for it; it is empty.
		trash := filepath.Join(filepath.Dir(e.dir), ".removed-"+filepath.Base(e.dir))
		err = errors.Join(os.RemoveAll(trash), os.Rename(e.dir, trash), os.RemoveAll(trash))
	}
	if err != nil {
		return false, fmt.Errorf("prune environment %s: %w", e.dir, err)
	}
	return true, nil
}

// sizeOf returns the bytes of the files below a folder.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile: it counts no more
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
