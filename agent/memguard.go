//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
)

const (
	// guardEvery is how often the memory of an executor is looked at.
	guardEvery = 100 * time.Millisecond
	// guardSkip is how many looks are left out while its run waits for calls: there may be a
	// thousand such.
	guardSkip = 9
	// guardSlack is what a task may use beyond its grant: stacks, the runtime's
	// own tables, the loader of a command.
	guardSlack = 32 << 20
)

// verdict is why guard ended a process; nothing when it did not.
type verdict struct {
	why    string
	memory bool
	used   int64 // bytes of private memory, when it was for these; 0 unknown
}

// guard ends an executor that cannot be left alone.
//
// Its task uses more private memory than it was granted: then it ends before the
// kernel ends something else. The bound counts growth since the run began: memory that
// earlier runs left in the process's heap is not this run's. A task without a
// grant is not watched. With a cgroup the kernel does the same between two looks.
//
// Or it is stopped: only the guard finds that out, because a link to a process that
// only computes may be silent, too. One that a debugger holds is left alone.
func guard(w *worker, proc *process.Process, control *shm.Control, patience time.Duration) verdict {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	var g growth
	var stopped time.Duration // in ticks: when all of this host stood still, no process is to blame
	for skipped := 0; ; {
		select {
		case <-proc.Done():
			step, _ := control.Last()
			kind, _ := w.recent.find(comms.RunID(step.Run))
			return w.fence.verdict(kind)
		case <-ticker.C:
		}
		if skipped++; skipped <= guardSkip && w.waits.Load() {
			continue
		}
		skipped = 0
		if !isStopped(proc.PID()) {
			stopped = 0
		} else if stopped += guardEvery; stopped >= patience {
			proc.Kill()
			return verdict{why: fmt.Sprintf("it was stopped (SIGSTOP) for %v", stopped)}
		}
		if w.waits.Load() {
			continue // it is looked at when it goes on
		}
		step, _ := control.Last()
		run := comms.RunID(step.Run)
		used := g.sample(run, privateMemory(proc.PID()))
		w.fence.rebase(&w.recent, g.base)
		kind, _ := w.recent.find(run)
		if kind == nil || kind.Resources.Memory <= 0 || used <= kind.Resources.Memory+guardSlack {
			continue
		}
		proc.Kill()
		return tooMuch(used, kind.Resources.Memory)
	}
}

func tooMuch(used, granted int64) verdict {
	return verdict{memory: true, used: max(used, 0),
		why: fmt.Sprintf("it used %s of private memory and was granted %s", units.BytesSize(float64(used)), units.BytesSize(float64(granted)))}
}

// isStopped tells whether a process was stopped by a signal.
func isStopped(pid int) bool {
	for _, line := range strings.Split(readText(filepath.Join("/proc", strconv.Itoa(pid), "status")), "\n") {
		if rest, ok := strings.CutPrefix(line, "State:"); ok {
			return strings.HasPrefix(strings.TrimSpace(rest), "T")
		}
	}
	return false
}

// growth is the memory of a process since its present run began.
type growth struct {
	run  comms.RunID
	base int64 // what was used before the run
	last int64
}

// sample takes what is used now and returns what of it is the run's.
func (g *growth) sample(run comms.RunID, used int64) int64 {
	if run != g.run {
		g.run, g.base = run, g.last
	}
	g.base = min(g.base, used) // returned memory is not there to be used again
	g.last = used
	return used - g.base
}

// privateMemory returns the bytes of anonymous memory that a process and its
// descendants hold; shared memory, and with it every dataset, does not count.
func privateMemory(pid int) int64 {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	var sum int64
	for _, line := range strings.Split(readText(filepath.Join(dir, "status")), "\n") {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			if kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				sum = kB << 10
			}
		}
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return sum // it has ended
	}
	for _, t := range threads {
		for _, child := range strings.Fields(readText(filepath.Join(dir, "task", t.Name(), "children"))) {
			if id, err := strconv.Atoi(child); err == nil {
				sum += privateMemory(id)
			}
		}
	}
	return sum
}
