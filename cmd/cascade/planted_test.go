package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The folder of sockets in a folder that is open to all may have been made by another user, or be a
// link that leads into a folder of ours: it is refused, and nothing is made in it.
func TestPlantedRuntimeFolder(t *testing.T) {
	const stranger = 61003
	give := func(path string) error { return os.Lchown(path, stranger, stranger) }
	for _, c := range []struct {
		name  string
		plant func(path, own string) error
		root  bool
		want  string
	}{
		{"open", func(path, _ string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chmod(path, 0o777)
		}, false, "has mode 0777 and others could enter it: run chmod 700 "},
		{"a file", func(path, _ string) error { return os.WriteFile(path, nil, 0o600) }, false, "is no folder: remove it, or choose another path"},
		{"a stranger's", func(path, _ string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return give(path)
		}, true, fmt.Sprintf("belongs to user %d, not to us (0): remove it, or choose another path", stranger)},
		{"a stranger's link", func(path, own string) error {
			if err := os.Symlink(own, path); err != nil {
				return err
			}
			return give(path)
		}, true, fmt.Sprintf("is a link that user %d made: remove it, or choose another path", stranger)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another user")
			}
			h := newHost(t)
			open, own := t.TempDir(), t.TempDir()
			if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(open, fmt.Sprintf("cascade-%d", os.Getuid()))
			if err := c.plant(path, own); err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", open)
			if err := os.WriteFile("job.yaml", []byte("job: j\ntasks:\n  a: {command: [\"true\"]}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"run", "job.yaml"}, {"connect", "--to", "tcp://127.0.0.1:1"}} {
				if out := h.start("", args...).wait(); !strings.Contains(out, path+" "+c.want) || !strings.HasPrefix(out, "exit ") {
					t.Errorf("%s:\n%s", args[0], out)
				}
			}
			for _, dir := range []string{own, path} {
				if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
					t.Errorf("made in %s: %v", dir, left)
				}
			}
		})
	}
}
