package owner

import (
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
