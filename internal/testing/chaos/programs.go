//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// programs builds the commands once and returns their folder. It lies in the
// user's cache: the next test process finds them there and links only what changed.
var programs = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	module := strings.TrimSpace(string(root))
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for programs: %w", err)
	}
	kind := "plain"
	args := []string{"build", "-tags", "check"}
	if raceEnabled {
		kind = "race"
		args = append(args, "-race")
	}
	dir := filepath.Join(cache, "cascade-chaos", strings.ReplaceAll(module, "/", "_"), kind)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for programs: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	build := exec.Command("go", append(args, "-o", dir+"/", "./cmd/cascade", "./cmd/cascade-controller", "./cmd/cascade-agent")...)
	build.Dir = module
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the commands: %w\n%s", err, text)
	}
	return dir, nil
})

// Program returns the path of a built command: cascade, cascade-controller or cascade-agent.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := programs()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}
