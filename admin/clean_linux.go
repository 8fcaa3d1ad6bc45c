package admin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/statedir"
)

// Clean removes what the daemons of a state folder left outside it when they were
// killed: processes, shared memory, sockets. dir is the folder of a local cluster
// ("" is this program's own, see cascade.WithState), of an agent or of a controller. A
// living daemon is an error that matches cascade.ErrConflict, unless CleanForce is given.
// Without CleanAll jobs and results stay, and go on with the next start: what lay
// was in shared memory only is recomputed.
func Clean(dir string, opts ...CleanOption) ([]Cleaned, error) {
	var o cleanOptions
	for _, f := range opts {
		f(&o)
	}
	paths, err := statedir.FindLocal(dir)
	if err != nil {
		return nil, err
	}
	all, err := cleanState(paths, o)
	var served *statedir.ServedError
	if errors.As(err, &served) {
		err = fmt.Errorf("%w: %w", cascade.ErrConflict, err)
	}
	return all, err
}

func cleanState(paths statedir.Local, o cleanOptions) ([]Cleaned, error) {
	switch {
	case exists(paths.State, "agent.lock"):
		c, err := cleanPart("agent", paths.State, o, agent.Clean)
		return []Cleaned{c}, err
	case exists(paths.State, "store", "lock"):
		c, err := cleanPart("controller", paths.State, o, controller.Clean)
		return []Cleaned{c}, err
	case exists(paths.State, "lock"):
		return cleanLocal(paths, o)
	}
	return nil, fmt.Errorf("%w: %s is no state folder of a cluster, agent or controller", cascade.ErrNotFound, paths.State)
}

// cleanLocal cleans the folder of a local cluster. Its lock is held meanwhile, so
// that none starts.
func cleanLocal(paths statedir.Local, o cleanOptions) (all []Cleaned, err error) {
	lock, _, err := statedir.LockLocal(paths.State)
	if err != nil {
		return nil, err
	}
	if lock == nil && !o.force {
		r, err := statedir.Get(filepath.Join(paths.State, "agent"))
		return nil, errors.Join(err, &statedir.ServedError{Dir: paths.State, PID: r.PID})
	}
	for _, part := range []struct {
		name, lock string
		clean      func(string, bool, bool) (statedir.Cleaned, error)
	}{{"agent", "agent.lock", agent.Clean}, {"controller", "store/lock", controller.Clean}} {
		dir := filepath.Join(paths.State, part.name)
		if !exists(dir, part.lock) {
			continue
		}
		c, err := cleanPart(part.name, dir, o, part.clean)
		all = append(all, c)
		if err != nil {
			if lock != nil {
				lock.Close()
			}
			return all, err
		}
	}
	if lock == nil { // its owner is dead by now
		if lock, _, err = statedir.LockLocal(paths.State); err != nil || lock == nil {
			return all, errors.Join(err, &statedir.ServedError{Dir: paths.State})
		}
	}
	defer lock.Close()
	left, err := filepath.Glob(filepath.Join(paths.Run, "*.sock.lock")) // also of owners that ended in order
	if err != nil {
		return all, fmt.Errorf("look for locks of sockets: %w", err)
	}
	for _, file := range left {
		if err := statedir.RemoveLock(file); err != nil {
			return all, err
		}
	}
	if err := os.Remove(paths.Run); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return all, fmt.Errorf("remove the folder of sockets: %w", err)
	}
	if !o.all {
		return all, nil
	}
	return all, statedir.Erase(paths.State, "lock", "joined")
}

func cleanPart(name, dir string, o cleanOptions, clean func(string, bool, bool) (statedir.Cleaned, error)) (c Cleaned, err error) {
	c.Part, c.Dir = name, dir
	c.Cleaned, err = clean(dir, o.force, o.all)
	if c.Removed = err == nil && o.all; !c.Removed {
		return c, err
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("see what is left in the state folder: %w", err)
	}
	for _, f := range files {
		c.Kept = append(c.Kept, f.Name())
	}
	return c, nil
}

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}
