package runtimeenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file that others could have written does not name the interpreter that runs.
func TestRememberedInterpretersAreOurs(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  os.FileMode // of the cache
		owner int         // of the file
		want  string
	}{
		{"ours", 0o700, os.Geteuid(), "remembered"},
		{"a cache that all may write to", 0o777 | os.ModeSticky, os.Geteuid(), "asked"},
		{"a file of another user", 0o700, 54321, "asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.owner != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another user")
			}
			programs, cache := t.TempDir(), t.TempDir()
			asked, remembered := filepath.Join(programs, "asked"), filepath.Join(programs, "remembered")
			script := fmt.Appendf(nil, "#!/bin/sh\necho '{\"Path\": %q, \"Implementation\": \"cpython\", \"Version\": \"3.11.1\"}'\n", asked)
			err := errors.Join(os.WriteFile(asked, script, 0o700), os.WriteFile(remembered, script, 0o700))
			info, err2 := os.Stat(asked)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			said := known{Size: info.Size(), Time: info.ModTime(), Asked: time.Now(),
				interpreter: interpreter{Path: remembered, Implementation: "cpython", Version: "3.11.1"}}
			text, err := json.Marshal(map[string]known{asked: said})
			file := filepath.Join(cache, "interpreters.json")
			if err := errors.Join(err, os.WriteFile(file, text, 0o600), os.Lchown(file, c.owner, -1), os.Chmod(cache, c.mode)); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CASCADE_PYTHON", asked)
			in := &interpreters{file: file}
			if found, err := in.find(t.Context(), ""); err != nil || filepath.Base(found.Path) != c.want {
				t.Errorf("found %s, %v, want %s", found.Path, err, c.want)
			}
		})
	}
}
