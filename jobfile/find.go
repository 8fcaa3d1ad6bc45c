package jobfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cascade-run/cascade/internal/outfile"
)

// FindFiles looks for files of inputs below a folder; see dag.Options.Find. Folders
// that a pattern matches are left out, and links that lead to nothing, which broken is told of.
func FindFiles(dir string, broken ...func(link string)) func(path string, pattern bool) ([]string, error) {
	dir = filepath.Clean(dir)
	return func(path string, pattern bool) ([]string, error) {
		if !pattern {
			return []string{path}, readable(outfile.Within(dir, path))
		}
		if strings.Contains(path, "**") {
			return nil, fmt.Errorf("** in %s has no meaning: write one * for each level of folders", path)
		}
		prefix := ""
		if !filepath.IsAbs(path) {
			prefix = dir + string(filepath.Separator)
		}
		all, err := filepath.Glob(literal(prefix) + path)
		if err != nil {
			return nil, fmt.Errorf("%s is no pattern: %w", path, err)
		}
		var found []string
		for _, name := range all {
			info, err := os.Stat(name)
			if err == nil && info.IsDir() {
				continue
			}
			if errors.Is(err, fs.ErrNotExist) {
				for _, tell := range broken {
					tell(name)
				}
				continue
			}
			if err := readable(name); err != nil {
				return nil, err
			}
			found = append(found, strings.TrimPrefix(name, prefix))
		}
		return found, nil
	}
}

// literal is a path as a pattern that stands for it alone.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readable tells why a path is no regular file that this process may read.
func readable(path string) error {
	f, _, err := outfile.OpenRegular(path)
	if err != nil {
		return err
	}
	return f.Close()
}
