//go:build linux

package controller

import (
	"fmt"
	"path/filepath"

	"github.com/cascade-run/cascade/internal/owner"
)

// Clean removes the sockets of the controller of a state folder. It must be dead,
// or is ended when force is set; else the error is a *owner.ServedError. The
// folder itself stays.
func Clean(state string, force bool) (owner.Cleaned, error) {
	var c owner.Cleaned
	lock, ended, err := owner.Take(state, filepath.Join(storeFolder, "lock"), force)
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
	return c, owner.Remove(state)
}
