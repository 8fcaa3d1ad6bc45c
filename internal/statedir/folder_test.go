package statedir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateFolder(t *testing.T) {
	for _, c := range []struct{ state, home, want, err string }{
		{"/s", "/h", "/s/cascade/perf", ""},
		{"", "/h", "/h/.local/state/cascade/perf", ""},
		{"/s", "", "/s/cascade/perf", ""},
		{"", "", "", "XDG_STATE_HOME"},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		got, err := StateFolder("perf")
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("state %q, home %q: %q, %v", c.state, c.home, got, err)
		}
	}
}

func TestRuntimeFolder(t *testing.T) {
	dir := t.TempDir()
	file, closed, temp := filepath.Join(dir, "file"), filepath.Join(dir, "closed"), filepath.Join(dir, "temp")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{closed: 0o500, temp: 0o700} {
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(temp, fmt.Sprintf("cascade-%d", os.Getuid()))
	others := "/" // of root, as /run/user/0 is; root itself may use it
	wantOthers := own
	if os.Getuid() == 0 {
		wantOthers = "/cascade"
		closed = file // root may write everywhere
	}
	for _, c := range []struct{ run, temp, want, err string }{
		{dir, temp, dir + "/cascade", ""},
		{"", temp, own, ""},
		{dir + "/nothing", temp, own, ""},
		{"relative", temp, own, ""},
		{file, temp, own, ""},
		{closed, temp, own, ""},
		{others, temp, wantOthers, ""},
		{dir, dir + "/nothing", dir + "/cascade", ""},
		{"", dir + "/nothing", "", "TMPDIR is " + dir + "/nothing, which is no folder"},
		{"", file, "", "TMPDIR is " + file + ", which is no folder"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.run)
		t.Setenv("TMPDIR", c.temp)
		got, err := RuntimeFolder()
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("XDG_RUNTIME_DIR %q, TMPDIR %q: %q, %v", c.run, c.temp, got, err)
		}
	}
}
