package safedir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/safedir"
)

const stranger = 54321 // a user that is neither root nor us

func TestFolders(t *testing.T) {
	for _, c := range []struct {
		name          string
		make          []string // "dir NAME MODE", "link NAME TARGET", "file NAME"; "of" before: it is the stranger's
		path          string
		private, own  string // what the refusal says; "" none
		needsStranger bool
	}{
		{name: "missing", path: "a/b"},
		{name: "ours", make: []string{"dir a 700"}, path: "a"},
		{name: "others may look", make: []string{"dir a 755"}, path: "a", private: "a has mode 0755 and others could enter it: run chmod 700 "},
		{name: "a group may write", make: []string{"dir a 770"}, path: "a", private: "chmod 700"},
		{name: "all may write", make: []string{"dir a 777"}, path: "a", private: "chmod 700", own: "a has mode 0777 and everybody could write to it: run chmod o-w "},
		{name: "all may write above", make: []string{"dir a 777"}, path: "a/b", private: "a has mode 0777 and everybody could exchange what is in it: run chmod o-w ", own: "everybody could exchange"},
		{name: "all may write above, and it is sticky", make: []string{"dir a 1777"}, path: "a/b"},
		{name: "all may write, and it is sticky", make: []string{"dir a 1777"}, path: "a", private: "chmod 700", own: "a has mode 1777 and everybody could write to it: run chmod o-w "},
		{name: "all may write to a stranger's above", make: []string{"of dir a 777"}, path: "a/b", private: "choose a folder of your own in it, or another path", own: "a has mode 0777 and everybody could exchange what is in it: choose", needsStranger: true},
		{name: "a stranger's above is sticky", make: []string{"of dir a 1777"}, path: "a/b", needsStranger: true},
		{name: "back from a folder", make: []string{"dir a 700"}, path: "a/../b"},
		{name: "back from a link", make: []string{"dir a 700", "dir a/c 700", "link l a/c"}, path: "l/../b", private: "as .. stands behind a link", own: "as .. stands behind a link"},
		{name: "a file", make: []string{"file a"}, path: "a", private: "a is no folder", own: "a is no folder"},
		{name: "below a file", make: []string{"file a"}, path: "a/b", private: "a is no folder", own: "a is no folder"},
		{name: "our link", make: []string{"dir a 700", "link l a"}, path: "l/b"},
		{name: "a link to itself", make: []string{"link l l"}, path: "l", private: "too many levels", own: "too many levels"},
		{name: "a stranger's", make: []string{"of dir a 700"}, path: "a", private: "belongs to user 54321", needsStranger: true},
		{name: "below a stranger's elsewhere", make: []string{"of dir a 755"}, path: "a/b", needsStranger: true},
		{name: "a stranger's link", make: []string{"dir a 700", "dir tmp 1777", "of link tmp/l ../a"}, path: "tmp/l", private: "l is a link that user 54321 made", own: "l is a link that user 54321 made", needsStranger: true},
		{name: "below a stranger's link", make: []string{"dir a 700", "dir tmp 1777", "of link tmp/l ../a"}, path: "tmp/l/b", private: "l is a link that user 54321 made", own: "l is a link that user 54321 made", needsStranger: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needsStranger && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another user")
			}
			for what, f := range map[string]func(string) error{c.private: safedir.Private, c.own + "\x00": safedir.Own} {
				what = strings.TrimSuffix(what, "\x00")
				dir := t.TempDir()
				for _, line := range c.make {
					put(t, dir, line)
				}
				err := f(dir + "/" + c.path) // and not cleaned
				switch {
				case what == "" && err != nil, what != "" && (err == nil || !strings.Contains(err.Error(), what)):
					t.Errorf("want %q, got %v", what, err)
				case what == "":
					if info, err := os.Stat(filepath.Join(dir, c.path)); err != nil || !info.IsDir() {
						t.Errorf("it is not there: %v, %v", info, err)
					}
				default:
					if _, err := os.Stat(filepath.Join(dir, "a", "b")); err == nil {
						t.Error("a folder was made where it was refused")
					}
				}
			}
		})
	}
}

// put makes what a line of the table says.
func put(t *testing.T, dir, line string) {
	t.Helper()
	line, foreign := strings.CutPrefix(line, "of ")
	f := strings.Fields(line)
	path := filepath.Join(dir, f[1])
	var err error
	switch f[0] {
	case "dir":
		modes := map[string]os.FileMode{"700": 0o700, "755": 0o755, "770": 0o770, "777": 0o777, "1777": 0o777 | os.ModeSticky}
		if err = os.Mkdir(path, 0o700); err == nil {
			err = os.Chmod(path, modes[f[2]])
		}
	case "link":
		err = os.Symlink(f[2], path)
	case "file":
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil && foreign {
		err = os.Lchown(path, stranger, stranger)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestMadeFoldersArePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := safedir.Own(filepath.Join(dir, "a", "b")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "a/b"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
