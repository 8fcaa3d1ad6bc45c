//go:build linux

package controller

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cascade-run/cascade/internal/statedir"
)

// Clean removes the sockets of the controller of a state folder. It must be dead,
// or is ended when force is set; else the error is a *statedir.ServedError. With all
// the store goes, too. No controller starts meanwhile.
func Clean(state string, force, all bool) (statedir.Cleaned, error) {
	var c statedir.Cleaned
	lockName := filepath.Join(storeFolder, "lock")
	lock, ended, err := statedir.Take(state, lockName, force)
	if err != nil {
		return c, fmt.Errorf("clean up after a controller: %w", err)
	}
	defer lock.Close()
	c.Owner = ended
	r, err := statedir.Get(state)
	if err == nil {
		c.Sockets, err = r.RemoveSockets()
	}
	if err != nil {
		return c, fmt.Errorf("clean up after a controller: %w", err)
	}
	if err := statedir.Remove(state); err != nil || !all {
		return c, err
	}
	names := []string{"incarnation", "packages"}
	files, err := os.ReadDir(filepath.Join(state, storeFolder))
	if err != nil {
		return c, fmt.Errorf("remove the store: %w", err)
	}
	for _, f := range files {
		if name := filepath.Join(storeFolder, f.Name()); name != lockName {
			names = append(names, name)
		}
	}
	return c, statedir.Erase(state, lockName, names...)
}
