package sim

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// facts are what the oracle knows of a job. Instances of streamed groups stand
// under their own number; lineage is counted by the slot's first.
type facts struct {
	g        *dag.Graph
	behind   map[dag.TaskIndex]map[dag.TaskIndex]bool // by a task: itself and all that it needs, directly or not
	stored   map[eventID]bool
	done     map[dag.TaskIndex]uint32 // attempts that finished, and the end is stored
	fence    map[dag.TaskIndex]uint32 // attempts up to this count no more
	since    map[dag.TaskIndex]uint64 // epoch at which it was last given out anew: what was noted at one before is void
	highest  map[dag.TaskIndex]uint32 // attempt seen
	gone     map[dag.TaskIndex]uint32 // attempt of which something is lost, until a later one has made it
	made     map[comms.DatasetRef]origin
	private  map[dag.TaskIndex]origin // that finished in a fused path, and whose outputs were not published
	begun    map[dag.TaskIndex]uint32 // highest attempt that was given to an executor
	may      map[dag.TaskIndex]uint32 // may run again although done: something was lost, of attempts up to this
	asked    map[dag.TaskIndex]bool   // may always run again: a client asked for it
	crashes  map[dag.TaskIndex]int
	enlarged map[dag.TaskIndex]int64 // bytes of memory that are held for tasks that took more than was
	aside    map[dag.TaskIndex]giver // tasks that an agent has set aside for another
	lists    map[try]string          // of members of gangs: the addresses that they were told
	// By an agent that came into the job, which another agent had or none: the epoch then.
	// Events of the agent of an earlier epoch are of tasks that were taken from it.
	came     map[string]uint64
	moves    int  // to another agent, or another incarnation of it
	shared   bool // it was on several agents
	cancel   bool
	failures int
	badly    map[dag.TaskIndex]badEnd // why tasks were skipped or cancelled, since they started over last
	late     map[dag.TaskIndex]uint32 // the highest attempt of which an agent said that it failed, stored or not
	fails    bool                     // it was to fail for what differed
	blamed   bool
	ended    bool // the end was stored once
	refused  bool // the store had no room for it at first: what an agent had begun of it was dropped
	deleted  bool
	varies   bool                         // its tasks may make other bytes in each attempt
	reads    map[tryOf][]dataRead         // by runs that succeeded
	read     map[dag.TaskIndex][]dataRead // by tasks of which a successful end is stored
	current  map[comms.DatasetRef]uint32  // the attempt that published it last
	differed uint64                       // datasets that had differed before the job ran again
}

// canon stands for a task in matters of lineage.
func (f *facts) canon(t dag.TaskIndex) dag.TaskIndex {
	if slot, _, ok := f.g.Slot(t); ok {
		first, err := f.g.Instance(slot, 0)
		if err == nil {
			return first
		}
	}
	first, _ := f.g.GangOf(t)
	return first // a gang is one: its members run again together
}

// members lists the tasks for which one stands in matters of lineage: those of its gang.
func (f *facts) members(t dag.TaskIndex) []dag.TaskIndex {
	first, size := f.g.GangOf(t)
	out := []dag.TaskIndex{first}
	for i := 1; i < size; i++ {
		out = append(out, first+dag.TaskIndex(i))
	}
	return out
}

// half tells whether some members of a task's gang are done and others are not.
func (f *facts) half(t dag.TaskIndex) bool {
	return slices.ContainsFunc(f.members(t), func(m dag.TaskIndex) bool { _, done := f.done[m]; return !done })
}

// needs returns a task and all that it needs.
func (f *facts) needs(t dag.TaskIndex) map[dag.TaskIndex]bool {
	t = f.canon(t)
	if all := f.behind[t]; all != nil {
		return all
	}
	all := map[dag.TaskIndex]bool{t: true}
	f.behind[t] = all
	add := func(p dag.TaskIndex) {
		for x := range f.needs(p) {
			all[x] = true
		}
	}
	if s := f.g.Group(t).Stream; s != nil {
		add(s.Generator)
	}
	for _, m := range f.members(t) {
		ins, err := f.g.Inputs(m)
		if err != nil {
			panic("sim: inputs of a valid graph: " + err.Error())
		}
		for i := range ins {
			for _, src := range ins[i].Sources {
				add(src.Task)
			}
		}
	}
	return all
}

// lost says that what a task made is gone somewhere: it and what it needs may run again.
func (f *facts) lost(t dag.TaskIndex) {
	f.gone[t] = max(f.gone[t], f.begun[t])
	f.mayAgain(f.needs(t))
}

// mayAgain says that tasks may run again.
func (f *facts) mayAgain(tasks map[dag.TaskIndex]bool) {
	for x := range tasks {
		for _, m := range f.members(x) {
			f.may[x] = max(f.may[x], f.begun[m])
		}
	}
}

// startsOver says that what tasks had published counts no more.
func (f *facts) startsOver(r comms.Range) {
	for ref, from := range f.made {
		if r.First <= ref.Task && ref.Task <= r.Last {
			from.lost = true
			f.made[ref] = from
		}
	}
}

// alone tells whether a task stands for itself only in matters of lineage: of one that does
// not, others may still have to run when it has.
func (f *facts) alone(t dag.TaskIndex) bool {
	_, _, instance := f.g.Slot(t)
	return !instance && len(f.members(t)) == 1
}

// behindLost tells whether something is lost that needs a task. Its agent may not know of that
// need, and frees what the task makes: then the task runs again.
func (f *facts) behindLost(t dag.TaskIndex) bool {
	for x := range f.gone {
		if x != t && f.needs(x)[t] {
			return true
		}
	}
	return false
}

func (f *facts) mayRun(t dag.TaskIndex) bool {
	c := f.canon(t)
	_, lost := f.may[c]
	return lost || f.asked[c] || f.varies
}

// withFollowers adds to tasks that run what the instances need that follow the
// generators among them: some may never have been.
func (f *facts) withFollowers(tasks map[dag.TaskIndex]bool) map[dag.TaskIndex]bool {
	all := maps.Clone(tasks)
	for t := range tasks {
		for o := range f.g.Group(t).Outputs {
			for _, slot := range f.g.StreamSlots(t, uint32(o)) {
				if first, err := f.g.Instance(slot, 0); err == nil {
					maps.Copy(all, f.needs(first))
				}
			}
		}
	}
	return all
}

// rerun says that a client asked for tasks to run again: they, what depends on
// them, and what those need.
func (f *facts) rerun(roots []dag.TaskIndex) {
	all := make([]dag.TaskIndex, 0, f.g.NumTasks())
	for i := range f.g.NumTasks() {
		all = append(all, dag.TaskIndex(i))
	}
	for slot := 0; ; slot++ {
		first, err := f.g.Instance(slot, 0)
		if _, _, ok := f.g.Slot(first); err != nil || !ok {
			break
		}
		all = append(all, first)
	}
	for _, t := range all {
		needs := f.needs(t)
		if slices.ContainsFunc(roots, func(r dag.TaskIndex) bool { return needs[f.canon(r)] }) {
			for x := range f.withFollowers(needs) {
				f.asked[x] = true
			}
		}
	}
}

// workers lists the agents that a job is assigned to.
func workers(r *records.Job) []records.Assignment {
	switch {
	case r.Agent == "":
		return nil
	case len(r.Assignments) == 0:
		return []records.Assignment{{Agent: r.Agent, Incarnation: r.Incarnation}}
	}
	return r.Assignments
}

func worksOn(r *records.Job, a *agent) bool {
	return slices.ContainsFunc(workers(r), func(p records.Assignment) bool { return p.Agent == a.name })
}

// left says that copies made by an agent's incarnation no longer count.
func (f *facts) left(agent string, upTo uint64) {
	for i := range f.g.Groups {
		for first, n := f.g.GroupTasks(i); f.g.Groups[i].GangSize() > 0 && n > 0; first, n = first+f.g.Groups[i].GangSize(), n-f.g.Groups[i].GangSize() {
			if f.half(dag.TaskIndex(first)) {
				f.lost(dag.TaskIndex(first))
			}
		}
	}
	for ref, from := range f.made {
		if from.agent == agent && from.incarn <= upTo && !from.inline {
			f.lost(ref.Task)
		}
	}
	for t, from := range f.private {
		if from.agent == agent && from.incarn <= upTo {
			f.lost(t)
		}
	}
}
