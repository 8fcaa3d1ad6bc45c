package cascade

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	const ours, rev = "github.com/cascade-run/cascade", "25c01a85c1e2aaaaaaaa"
	for _, c := range []struct{ path, revision, modified, want string }{
		{ours, "", "", "1.2.3"},
		{ours, rev, "false", "1.2.3 (25c01a85c1e2)"},
		{ours, rev, "true", "1.2.3 (25c01a85c1e2+)"},
		{ours, "1", "false", "1.2.3"},
		{"example.org/program", rev, "false", "1.2.3"}, // that is the program's own revision
	} {
		info := &debug.BuildInfo{Main: debug.Module{Path: c.path}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: c.revision}, {Key: "vcs.modified", Value: c.modified}}}
		if got := versionOf("1.2.3", info); got != c.want {
			t.Errorf("%v is %q", c, got)
		}
	}
}

// Programs and the Python package have one number, which stands in one place.
func TestVersionIsOne(t *testing.T) {
	text, err := os.ReadFile("executor/python/cascade/__init__.py")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^__version__ = "(\d+\.\d+\.\d+)"$`).FindSubmatch(text)
	if m == nil || Version() != string(m[1]) {
		t.Errorf("the package says %q, a program %q", m, Version())
	}
	project, err := os.ReadFile("executor/python/pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^dynamic = \["version"\]$`).Match(project) || regexp.MustCompile(`(?m)^version *=`).Match(project) {
		t.Error("pyproject.toml does not leave its version to cascade/__init__.py")
	}
}
