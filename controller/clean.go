//go:build linux

package controller

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cascade-run/cascade/internal/owner"
)

// Clean removes the sockets of the controller of a state folder. It must be dead,
// or is ended when force is set; else the error is a *owner.ServedError. With all
// the store goes, too. No controller starts meanwhile.
func Clean(state string, force, all bool) (owner.Cleaned, error) {
	var c owner.Cleaned
	lockName := filepath.Join(storeFolder, "lock")
	lock, ended, err := owner.Take(state, lockName, force)
	if err != nil {
		return c, fmt.Errorf("clean up after a controller: %w", err)
	}
	defer lock.Close()
	c.Owner = ended
	r, err := owner.Get(state)
	if err == nil {
		c.Sockets, err = r.RemoveSockets()
	}
	if err != nil {
		return c, fmt.Errorf("clean up after a controller: %w", err)
	}
	if err := owner.Remove(state); err != nil || !all {
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
	return c, owner.Erase(state, lockName, names...)
}
