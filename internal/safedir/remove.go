package safedir

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Remove removes what is at path with all below it, also folders that their owner made read-only: tasks copy the
// shared folders of environments, modes and all, and commands withhold what they like. A missing path is no error.
func Remove(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(at string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() && os.Chmod(at, 0o700) != nil { //nolint:gosec // a folder
			return fs.SkipDir
		}
		return nil // RemoveAll says what stays
	})
	return os.RemoveAll(path)
}
