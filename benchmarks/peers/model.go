package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// model is which processes a system has when it is warm and has nothing to do.
type model struct {
	Version   string  `json:"version"`   // of the system when this was measured
	Says      string  `json:"says"`      // in the runner's words
	Processes int     `json:"processes"` // without the reaper of this benchmark
	Memory    float64 `json:"idle_mib"`  // private and file pages, shared ones in part
	CPU       float64 `json:"idle_cpu"`  // cores that are busy all the same
}

// idle is how long a system is watched that has nothing to do.
const idle = time.Second

// model measures a system that has nothing to do.
func (r *runner) model(s system) model {
	m := model{Version: r.Version, Says: r.Model}
	before := r.processes()
	cpu := ticks(before)
	time.Sleep(idle)
	after := r.processes()
	m.CPU = max(ticks(after)-cpu, 0) / 100 / idle.Seconds()
	m.Processes = len(after)
	if bytes, err := memory(after); err == nil {
		m.Memory = bytes / (1 << 20)
	}
	return m
}

// controlMemory is what everything but the workers has, in bytes.
func (r *runner) controlMemory(workers []int) (float64, error) {
	return memory(slices.DeleteFunc(r.processes(), func(pid int) bool { return slices.Contains(workers, pid) }))
}

// processes lists the runner and what it has started, directly or not: all below
// the reaper, which adopts what daemons leave.
func (r *runner) processes() (all []int) {
	children := map[int][]int{}
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range dirs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if f := stat(pid); len(f) > 1 && f[0] != "Z" {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	f := stat(r.proc.PID())
	if len(f) < 2 {
		return nil
	}
	reaper, err := strconv.Atoi(f[1])
	if err != nil {
		return nil
	}
	for next := children[reaper]; len(next) > 0; {
		all = append(all, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return all
}

// stat is what /proc/PID/stat says after the name: state, parent and so on.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// ticks is the cpu time of processes, in hundredths of a second.
func ticks(pids []int) (sum float64) {
	for _, pid := range pids {
		if f := stat(pid); len(f) > 12 {
			for _, x := range f[11:13] {
				n, err := strconv.ParseFloat(x, 64)
				if err == nil {
					sum += n
				}
			}
		}
	}
	return sum
}

// memory is what processes have, each page that several map shared between them,
// without shared memory: datasets are no burden of the control.
func memory(pids []int) (sum float64, err error) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			if os.IsNotExist(err) {
				continue // it has ended
			}
			return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "Pss_Anon:" && f[0] != "Pss_File:" {
				continue
			}
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %q: %w", pid, line, err)
			}
			sum += kib * 1024
		}
	}
	return sum, nil
}
