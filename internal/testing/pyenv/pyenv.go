// Package pyenv states what a test needs of its host, and skips the test where that is
// missing. CASCADE_REQUIRE_PYTHON=1, which CI sets, makes such a skip a failure.
package pyenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
)

// Python skips a test, also with -short, unless environments of Python can be built:
// there is an interpreter, and uv and the packages that each environment has are in
// the user's cache or come from an index.
func Python(t *testing.T) {
	t.Helper()
	PythonVersion(t, "")
}

// PythonVersion is Python for a test of one version, such as "3.12".
func PythonVersion(t *testing.T, version string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds an environment from packages")
	}
	dir, err := os.UserCacheDir()
	if err == nil {
		cache := runtimeenv.New(filepath.Join(dir, "cascade-test"))
		_, err = cache.Prepare(t.Context(), dag.Environment{Name: "test", Python: &dag.Python{Version: version}}, func(waits string) { t.Log(waits) })
		if closed := cache.Close(); err == nil {
			err = closed
		}
	}
	switch {
	case err == nil:
	case os.Getenv("CASCADE_REQUIRE_PYTHON") != "":
		t.Fatal(err)
	default:
		t.Skip("no environments of Python here: ", err)
	}
}
