package outfile

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced whole, with its new mode; where that cannot be, it stays, and nothing is left beside it.
func TestReplace(t *testing.T) {
	for _, c := range []struct {
		name  string
		there func(t *testing.T, path string)
		fails bool
	}{
		{"nothing", func(*testing.T, string) {}, false},
		{"a file", func(t *testing.T, path string) { write(t, path, "a longer text that was there") }, false},
		{"a link", func(t *testing.T, path string) {
			if err := os.Symlink("/no/such/file", path); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			c.there(t, path)
			err := Replace(path, []byte("new"), 0o400)
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			if !c.fails {
				if text := read(t, path); text != "new" {
					t.Errorf("it is %q", text)
				}
				if info, err := os.Lstat(path); err != nil || info.Mode() != 0o400 {
					t.Errorf("it is %v, %v", info, err)
				}
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
				t.Errorf("the folder has %v, %v", all, err)
			}
		})
	}
	if err := Replace(filepath.Join(t.TempDir(), "missing", "file"), nil, 0o600); err == nil {
		t.Error("in a folder that is not there")
	}
}
