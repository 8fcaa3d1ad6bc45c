//go:build linux

package agent

import (
	"sync"

	"github.com/cascade-run/cascade/agent/cgroup"
	"github.com/cascade-run/cascade/comms"
)

// fence is the memory limit of an executor's cgroup; without a cgroup it does
// nothing. It stops what grows faster than guard looks.
//
// Runs follow each other on an executor and the agent hears of it later. So the
// limit is what the process had before its present run, and the largest grant of
// all kinds that it may be running: guard, which knows the run, is exact. It is
// raised before an executor hears of a kind, and lowered by guard.
type fence struct {
	mu    sync.Mutex
	group *cgroup.Group
	base  int64 // of the process, before its present run
	limit int64 // that is set; 0 none
}

// fenceSlack is guardSlack and what the kernel itself takes for the processes,
// which a cgroup counts too.
const fenceSlack = 64 << 20

// rebase sets the limit for what the process had before its run.
func (f *fence) rebase(r *recent, base int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base = base
	f.update(r)
}

// raise makes room for a kind of which the executor is about to hear.
func (f *fence) raise(r *recent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update(r)
}

// update writes the limit if it changed. One that cannot be written leaves guard alone to watch.
func (f *fence) update(r *recent) {
	if f.group == nil {
		return
	}
	limit := r.largestGrant()
	if limit > 0 {
		limit += f.base + fenceSlack
	}
	if limit != f.limit && f.group.Limit(limit) == nil {
		f.limit = limit
	}
}

// verdict tells of a dead process whether the kernel ended it at the limit.
func (f *fence) verdict(kind *comms.Kind) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.group == nil || !f.group.Killed() {
		return verdict{}
	}
	if peak := f.group.Peak(); peak > 0 && kind != nil {
		v := tooMuch(peak-f.base, kind.Resources.Memory)
		v.why += "; the kernel ended it at the limit of its cgroup"
		return v
	}
	return verdict{memory: true, why: "the kernel ended it at the memory limit of its cgroup"}
}

// open gives an executor a cgroup of its own, where the agent has one to give.
func (f *fence) open(tree *cgroup.Tree, name string) error {
	if tree == nil {
		return nil
	}
	group, err := tree.New(name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.group = group
	return nil
}

// close removes the cgroup. The processes in it must be dead.
func (f *fence) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.group == nil {
		return nil
	}
	defer func() { f.group = nil }()
	return f.group.Remove()
}
