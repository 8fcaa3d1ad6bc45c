//go:build linux

package python_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/internal/flock"
)

// built builds the command and the daemons once and returns their folder. It lies in the user's cache: the next test
// process finds them there and links only what has changed.
var built = sync.OnceValues(func() (string, error) {
	module, err := filepath.Abs("../..")
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for programs: %w", err)
	}
	dir := filepath.Join(cache, "cascade-test", "programs", strings.ReplaceAll(module, "/", "_"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for programs: %w", err)
	}
	lock, err := flock.Wait(context.Background(), dir+".lock", flock.Exclusive)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	build := exec.Command("go", "build", "-o", dir, "../../cmd/cascade", "../../cmd/cascade-controller", "../../cmd/cascade-agent")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

// programs returns the folder of the command and the daemons. Tests only read it.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
