package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/cascade-run/cascade/agent"
)

const shmFolder = "/dev/shm"

// peerMemory is how peers name shared memory: earthkit-workflows, multiprocessing of
// Python (semaphores and segments), compiled graphs of Ray (semaphores, also when they end
// well), Open MPI. Other memory of Ray loses its name at once.
var peerMemory = regexp.MustCompile(`^(sCasc.*|[0-9a-f]{24}|sem\.mp-.*|sem\.(hdr|obj)[0-9]+-.*|psm_.*|vader_segment\..*)$`)

// leftovers lists what there is already of what peers may leave.
func leftovers() []string { return append(sharedMemory(), sockets()...) }

// sharedMemory lists the names of shared memory that peers may leave.
func sharedMemory() (names []string) {
	entries, err := os.ReadDir(shmFolder)
	if err != nil {
		return nil // there is none on this machine
	}
	for _, e := range entries {
		if peerMemory.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// peerSockets are those that earthkit-workflows makes in /tmp, whatever TMPDIR says.
const peerSockets = "/tmp/cascShmSock-*"

// sockets lists the sockets that peers may leave.
func sockets() []string {
	paths, err := filepath.Glob(peerSockets)
	if err != nil {
		return nil // the pattern is good
	}
	return paths
}

// removeLeft removes what a system that was killed has left outside of its folder: sockets
// that were not there before it began, shared memory of which that is true and that no
// process has mapped, and that of agents whose state is below the folder.
func removeLeft(dir string, before []string) error {
	errs := []error{cleanAgents(dir)}
	for _, path := range sockets() {
		if info, err := os.Lstat(path); err == nil && ours(info) && info.Mode().Type() == fs.ModeSocket && !slices.Contains(before, path) {
			errs = append(errs, os.Remove(path))
		}
	}
	if left := slices.DeleteFunc(sharedMemory(), func(name string) bool { return slices.Contains(before, name) }); len(left) > 0 {
		used, err := mapped()
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, name := range left {
			path := filepath.Join(shmFolder, name)
			if info, err := os.Stat(path); err == nil && ours(info) && !used[path] {
				errs = append(errs, os.Remove(path))
			}
		}
	}
	return errors.Join(errs...)
}

// cleanAgents removes the shared memory of agents that were killed.
func cleanAgents(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it ended meanwhile
			}
			return err
		}
		if e.Name() != "agent.json" {
			return nil
		}
		if _, err := agent.Clean(filepath.Dir(path), false, false); err != nil {
			return fmt.Errorf("remove what an agent left: %w", err)
		}
		return nil
	})
}

func ours(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// mapped lists the files of shared memory that processes have mapped.
func mapped() (map[string]bool, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/maps")
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended, or is another user's, and so is its memory
		}
		for line := range strings.Lines(string(b)) {
			if at := strings.Index(line, shmFolder+"/"); at >= 0 {
				used[strings.TrimSpace(line[at:])] = true
			}
		}
	}
	return used, nil
}
