//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/internal/statedir"
)

// Clean removes what the agent of a state folder had outside it: processes,
// shared memory, sockets. The agent must be dead, or is ended when force is set;
// else the error is a *statedir.ServedError. Datasets in memory are recomputed when they
// are needed; with all the state itself goes, too. No agent starts meanwhile.
func Clean(state string, force, all bool) (statedir.Cleaned, error) {
	var c statedir.Cleaned
	lock, ended, err := statedir.Take(state, lockName, force)
	if err != nil {
		return c, fmt.Errorf("clean up after an agent: %w", err)
	}
	defer lock.Close()
	c.Owner = ended
	r, err := statedir.Get(state)
	if err != nil {
		return c, fmt.Errorf("clean up after an agent: %w", err)
	}
	if err := cleanMemory(r.Memory, &c); err != nil {
		return c, fmt.Errorf("clean up after an agent: %w", err)
	}
	if c.Sockets, err = r.RemoveSockets(); err != nil {
		return c, fmt.Errorf("clean up after an agent: %w", err)
	}
	if err := safedir.Remove(filepath.Join(state, "scratch")); err != nil {
		return c, fmt.Errorf("clean up after an agent: remove scratch folder: %w", err)
	}
	if err := statedir.Remove(state); err != nil || !all {
		return c, err
	}
	return c, statedir.Erase(state, lockName, "agent.json", "executor.last", "logs", "spill", "scratch", "cache", "run")
}

// cleanMemory ends who may still write to a folder in shared memory and removes it.
func cleanMemory(dir string, c *statedir.Cleaned) error {
	if dir == "" {
		return nil
	}
	if filepath.Dir(dir) != shmFolder || !strings.HasPrefix(filepath.Base(dir), fmt.Sprintf("cascade-%d-", os.Getuid())) {
		return fmt.Errorf("%s is recorded as its shared memory, and no agent of this user makes such a folder", dir)
	}
	alive := filepath.Join(dir, aliveName)
	pids, err := process.Holders(alive)
	if err == nil {
		err = process.EndHolders(alive, patience)
	}
	if err != nil {
		return err
	}
	c.Ended = pids
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			c.Bytes += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the host was started anew, or the agent had closed
	}
	if err == nil {
		err = safedir.Remove(dir)
	}
	if err != nil {
		return fmt.Errorf("remove shared memory: %w", err)
	}
	c.Memory = dir
	return nil
}
