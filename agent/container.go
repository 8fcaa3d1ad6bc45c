//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/agent/runtimeenv"
)

// shownAlways are places of the host that processes in an image see: the kernel's, shared
// memory below /dev, temporary files, and how names are found on the network.
var shownAlways = [...]string{"/proc", "/sys", "/dev", "/tmp", "/etc/resolv.conf", "/etc/hosts"}

// root is the file system of an executor in an image, with what it shares with the agent:
// its program, sockets, datasets, its own scratch, the job's folder, and what Config.Show names. It is nil
// for executors that see the host's.
func (a *Agent) root(act runtimeenv.Activation, files executorFiles, program string, dirs ...string) (*process.Root, error) {
	if act.Root == "" {
		return nil, nil
	}
	r := &process.Root{Dir: act.Root, Work: filepath.Join(files.scratch, "root")}
	if err := os.MkdirAll(r.Work, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the container: %w", err)
	}
	for _, path := range append(slices.Concat(shownAlways[:], a.cfg.Show), append(dirs,
		program, files.scratch, a.store.Dir(), a.cfg.Cache, a.cfg.Runtime, filepath.Join(a.cfg.State, "spill"))...) {
		if path == "/" || !filepath.IsAbs(path) { // a name is that of a program of the image
			continue
		}
		if _, err := os.Stat(path); err == nil {
			r.Binds = append(r.Binds, path)
		}
	}
	return r, nil
}
