package statedir

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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

// RuntimeFolder returns the folder for this user's sockets: in XDG_RUNTIME_DIR when that is a folder of
// this user which may be written, as it is not after su or in a container; else the user's own in
// TMPDIR or /tmp.
func RuntimeFolder() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && usable(dir) {
		return filepath.Join(dir, "cascade"), nil
	}
	temp := os.TempDir()
	if info, err := os.Stat(temp); err != nil || !info.IsDir() {
		return "", fmt.Errorf("find a folder for sockets: TMPDIR is %s, which is no folder: set it to one, or unset it (%w)", temp, cmp.Or(err, error(unix.ENOTDIR)))
	}
	return filepath.Join(temp, fmt.Sprintf("cascade-%d", os.Getuid())), nil
}

func usable(dir string) bool {
	var info unix.Stat_t
	return filepath.IsAbs(dir) && unix.Stat(dir, &info) == nil && info.Mode&unix.S_IFMT == unix.S_IFDIR && int(info.Uid) == os.Getuid() &&
		unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}
