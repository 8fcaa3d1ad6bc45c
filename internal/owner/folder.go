package owner

import (
	"fmt"
	"os"
	"path/filepath"
)

// StateFolder is where name, a program or a part of a cluster, keeps its state when
// nothing says where: cascade/NAME in $XDG_STATE_HOME, or in ~/.local/state. It is not made.
func StateFolder(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the state folder, which XDG_STATE_HOME can name: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "cascade", name), nil
}
