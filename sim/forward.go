package sim

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// far is a resource that one agent alone has: calls that need it must go there.
const far = "far"

// drawForwards makes agents several and small, whose tasks call much, so that calls go
// to other agents.
func (f *fates) drawForwards(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 28))
	f.forward = pick(r, time.Nanosecond, time.Microsecond, time.Millisecond, 20*time.Millisecond)
	f.patience = pick(r, 10*time.Millisecond, 300*time.Millisecond, 3*time.Second)
	f.agents, f.calls = max(f.agents, 2), pick(r, 300, 700, 1000)
	f.cpu, f.executors = pick(r, int64(1000), 1000, 2000), pick(r, 1, 1, 2, 3)
	f.far = pick(r, 0, 0, 200, 500)
}

// custom is what an agent has of other resources than cores and memory.
func (w *world) custom(agent int) []comms.Amount {
	all := []comms.Amount{{Name: "disk", N: 1000}}
	if w.fate.far > 0 && agent == 1 {
		all = append(all, comms.Amount{Name: far, N: 1000})
	}
	return all
}

// needs is what the n-th call of a run needs, the same in each attempt. Calls of
// calls need none of it: their callers may hold all that there is.
func (x *executor) needs(task dag.TaskIndex, n int) (r comms.Resources) {
	if x.w.fate.far > 0 && x.kinds[x.cur.Kind].Function != callee && (int(task)*7+n*3+1)*331%1000 < x.w.fate.far {
		r.Custom = []comms.Amount{{Name: far, N: 1000}}
	}
	return r
}

// called names a call of a task of a graph.
type called struct {
	job    comms.JobID
	task   dag.TaskIndex
	number int
}

// called sees the end of a call stored. Each that a task of a graph makes ends once,
// wherever it runs and however often, but after a loss; what calls call may run again with them.
func (o *oracle) called(job comms.JobID, e *comms.Event) {
	name := e.CallName()
	_, number, direct := strings.Cut(name, "/")
	n, err := strconv.Atoi(number)
	if !direct || err != nil {
		return
	}
	k := called{job, e.Task, n}
	if o.ends[k]++; o.ends[k] > o.calls[k]+o.rows { // with each loss it may run once more
		o.w.fail(job, "call %s ends %d times, and was made %d times; %d datasets of calls were lost", name, o.ends[k], o.calls[k], o.rows)
	}
}

// makesCall sees a task of a graph make its n-th call.
func (o *oracle) makesCall(x *executor, n int) {
	if k := x.kinds[x.cur.Kind]; k.Function != callee {
		o.calls[called{k.Job, x.cur.Task, n}]++
	}
}
