//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// A task in a container sees the devices that it was given, as one outside does, and what its
// agent shows beside. Devices are modelled, a number each, and a file stands for the library of
// their driver.
func TestDevicesInContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, or user namespaces")
	}
	image, _ := smallfs.FakePodman(t, smallfs.Programs(t, "sh", "cat", "ls"), "id")
	drivers, err := os.MkdirTemp("/var/tmp", "cascade-test-") // containers see all of /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(drivers) })
	for _, name := range []string{"libdriver.so.550", "libother.so"} {
		if err := os.WriteFile(filepath.Join(drivers, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	library := filepath.Join(drivers, "libdriver.so.1") // a link, as loaders look for it
	if err := os.Symlink("libdriver.so.550", library); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, func(c *Config) { c.GPUs, c.Show = 2, []string{library} })
	j := h.submit(fmt.Sprintf(`job: devices
environments:
  tools: {container: %q}
tasks:
  two: {command: "echo \"$CUDA_VISIBLE_DEVICES $(cat %s) $(ls %s) $(ls /dev/null)\" > ${out.d}", environment: tools, resources: {gpu: 2}, out: [d]}
  none: {command: "echo \"none: $CUDA_VISIBLE_DEVICES\" > ${out.d}", environment: tools, out: [d]}
outputs: [two.d, none.d]
`, image, library, drivers))
	if got := j.ended(); strings.Count(got, " finished 1") != 2 { // in any order
		t.Fatal(got)
	}
	for name, want := range map[string]string{"two": "0,1 libdriver.so.550 libdriver.so.1 /dev/null\n", "none": "none: \n"} {
		if got := string(h.bytes(j.id, j.output(name))); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What is to be shown and is not there is a mistake of who starts the agent.
func TestShownInContainers(t *testing.T) {
	for path, want := range map[string]string{"lib": "absolute path", "/": "below /", "/not/there": "no such file"} {
		_, err := New(Config{State: t.TempDir(), Cache: t.TempDir(), Controller: "ipc:///not/used", Show: []string{path}, Log: testLog(t)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("show %s: %v, want %q", path, err, want)
		}
	}
}
