//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shmFolder is where POSIX shared memory lives on Linux.
const shmFolder = "/dev/shm"

// cpuQuota returns the smallest cpu quota of this process's cgroups (v2 and v1)
// in thousandths of a core, at most limit.
func cpuQuota(root, self string, limit int64) int64 {
	for _, dir := range cgroupFolders(root, self, "") {
		fields := strings.Fields(readText(filepath.Join(dir, "cpu.max")))
		if len(fields) == 2 {
			limit = lowerQuota(limit, fields[0], fields[1])
		}
	}
	for _, dir := range cgroupFolders(root, self, "cpu") {
		limit = lowerQuota(limit, readText(filepath.Join(dir, "cpu.cfs_quota_us")), readText(filepath.Join(dir, "cpu.cfs_period_us")))
	}
	return limit
}

func lowerQuota(limit int64, quota, period string) int64 {
	q, err1 := strconv.ParseInt(quota, 10, 64) // "max" and -1 mean no quota
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return limit
	}
	return max(1, min(limit, q*1000/p))
}

// memoryTotal returns the memory that this process and its children may use:
// the host's, or less where a cgroup says so.
func memoryTotal(root, self, meminfo string) (int64, error) {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	var total int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &total); err != nil {
		return 0, fmt.Errorf("read the host's memory from %s: %w", meminfo, err)
	}
	total <<= 10
	files := []string{}
	for _, dir := range cgroupFolders(root, self, "") {
		files = append(files, filepath.Join(dir, "memory.max"), filepath.Join(dir, "memory.high"))
	}
	for _, dir := range cgroupFolders(root, self, "memory") {
		files = append(files, filepath.Join(dir, "memory.limit_in_bytes"))
	}
	for _, f := range files {
		if n, err := strconv.ParseInt(readText(f), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total, nil
}

// cgroupFolders returns this process's cgroup and its ancestors in the hierarchy
// of a v1 controller, or in v2's when controller is "". In a container the
// hierarchy may be mounted at its own root: folders that do not exist do no harm.
func cgroupFolders(root, self, controller string) []string {
	for _, line := range strings.Split(readText(self), "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := root
		switch {
		case controller == "" && parts[0] == "0" && parts[1] == "":
		case controller != "" && contains(strings.Split(parts[1], ","), controller):
			base = filepath.Join(root, controller)
		default:
			continue
		}
		var dirs []string
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(base, path))
			if path == "/" {
				return dirs
			}
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// readText returns a small file's text without the final newline, "" when it cannot be read.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// freeSpace returns the bytes that a file system has free for us.
func freeSpace(path string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("ask for the free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}
