package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// The serial model says which ends of a call are right. Which of them have ended first, and which
// were cancelled in time, it takes from the run.

// outcomes are what the oracle knows of calls.
type outcomes struct {
	made    map[called]int                     // how often each call of a task of a graph was made
	ended   map[called]int                     // and has ended
	met     map[rowID]map[metData]metWord      // what tries of a task have read
	lives   map[rowID]int                      // tasks of graphs, how often they have ended well
	done    map[rowID]int                      // called tasks, how often their agent knows that they have ended well
	sums    map[rowID]map[comms.CallRef]uint64 // of the last call of a name
	dropped map[with]bool                      // called tasks that some run has dropped: they may run again

	again   int // calls that another try made once more
	deepest int // level of a program that called
}

func newOutcomes() outcomes {
	return outcomes{made: map[called]int{}, ended: map[called]int{}, met: map[rowID]map[metData]metWord{}, lives: map[rowID]int{}, dropped: map[with]bool{}, done: map[rowID]int{}, sums: map[rowID]map[comms.CallRef]uint64{}}
}

// called names a call of a task of a graph.
type called struct {
	job  comms.JobID
	task dag.TaskIndex
	name string // behind that of its task
}

// rowID names a task of a graph, or a called one, at the agent that runs it. Its tries are of one
// life, and meet what they have called.
type rowID struct {
	agent  string
	incarn uint64
	job    comms.JobID
	task   dag.TaskIndex
	life   uint64
	name   string // of a called task
	inputs uint64
}

type metData struct {
	ref comms.CallRef
	of  comms.DatasetRef
}

type metWord struct {
	word  string
	stays bool
}

// row names the task of the run at hand.
func (x *executor) row() rowID {
	if x.calls.row.agent == "" {
		x.calls.row = x.newRow()
	}
	return x.calls.row
}

func (x *executor) newRow() rowID {
	lives := x.w.oracle.calls.lives
	row := rowID{agent: x.a.name, incarn: x.a.incarn, job: x.kinds[x.cur.Kind].Job, task: x.cur.Task, inputs: x.calls.with.inputs}
	if x.isCall() {
		row.name = x.cur.Name
		row.life = hashOf(x.calls.with.life, lives[rowID{agent: row.agent, incarn: row.incarn, name: row.name}])
		return row
	}
	// Another life begins with each grant, when it has ended well, and when its agent forgets the job or is given it anew.
	row.life = hashOf(x.cur.Attempt&^comms.LastTry, lives[row], lives[jobAt(x.a, row.job)])
	return row
}

// mayLose tells whether something was lost of calls on an agent that goes on: the one place that says when a call
// may run again. That is no error of its parent.
func (o *oracle) mayLose() bool { return o.rows > 0 }

// lossTold tells whether a run is told of a loss, and should not be: its parent brings again what another
// run can bring. That something is lost which a called task had, and which is not repeatable, is the error of that
// one: also when it runs again since its own result is lost.
func (x *executor) lossTold(e *comms.TaskError) bool {
	return e.Kind == comms.ErrorStore && strings.Contains(e.Message, "lost") && !x.calls.prog.once && !strings.Contains(e.Message, "what it called")
}

// makesCall sees a run make a call, or put a value.
func (o *oracle) makesCall(x *executor, v *callVar, name string) {
	p := x.row()
	if o.calls.sums[p] == nil {
		o.calls.sums[p] = map[comms.CallRef]uint64{}
	}
	switch sum, made := o.calls.sums[p][v.ref]; {
	case made && sum != v.request:
		o.forgetMet(p, v.ref)
	case made:
		o.calls.again++
	}
	if x.isCall() {
		o.calls.deepest = max(o.calls.deepest, x.w.fate.programs.depth-x.calls.prog.depth)
	}
	o.calls.sums[p][v.ref] = v.request
	if k := x.kinds[x.cur.Kind]; k.Function != callee && v.act.what == actCall {
		number := fmt.Sprint(v.ref.Number)
		if v.ref.Strand != 0 {
			number = fmt.Sprintf("%08x.%d", v.ref.Strand>>32, v.ref.Number)
		}
		if name != "" {
			number = name + "-" + number
		}
		o.calls.made[called{k.Job, x.cur.Task, number}]++
	}
}

// called sees the end of a call stored. Each that a task of a graph makes ends once,
// wherever it runs and however often; what calls call may run again with them.
func (o *oracle) called(job comms.JobID, e *comms.Event) {
	name := e.CallName()
	_, number, _ := strings.Cut(name, "/")
	if strings.Contains(number, "/") {
		return
	}
	k := called{job, e.Task, number}
	if o.calls.ended[k]++; o.calls.ended[k] > o.calls.made[k]+o.rows+len(o.calls.dropped) { // it may run once more with each of those
		o.w.fail(job, "call %s ends %d times, and was made %d times; %d datasets of calls were lost", name, o.calls.ended[k], o.calls.made[k], o.rows)
	}
}

// drops sees a run drop a call: another try of its task may have it run again.
func (o *oracle) drops(x *executor, v *callVar) {
	o.forgetMet(x.row(), v.ref)
	o.calls.dropped[v.with] = true
}

func (o *oracle) forgetMet(p rowID, ref comms.CallRef) {
	for k := range o.calls.met[p] {
		if k.ref == ref {
			delete(o.calls.met[p], k)
		}
	}
}

// readsCall sees a run read what a call returned: another try of its task reads the same. stays tells
// that nothing of what it returned can be lost.
func (o *oracle) readsCall(x *executor, v *callVar, of comms.DatasetRef, word string, stays bool) {
	p, k := x.row(), metData{v.ref, of}
	if o.calls.met[p] == nil {
		o.calls.met[p] = map[metData]metWord{}
	}
	if before, met := o.calls.met[p][k]; met && before.word != word && (before.stays || !o.mayLose()) && !x.calls.prog.once {
		o.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d, attempt %d, reads %q as dataset %v of call %v: another try of it has read %q", x.cur.ID, x.cur.Task, x.cur.Attempt, word, of, v.ref, before.word)
	}
	o.calls.met[p][k] = metWord{word, stays}
}

// startsCall sees a called task begin: nothing of it runs elsewhere on its agent, and it has not ended well.
func (o *oracle) startsCall(x *executor) {
	k, r := x.kinds[x.cur.Kind], x.cur
	for _, y := range x.a.living() {
		if y != x && y.cur != nil && y.row() == x.row() && !slices.Contains(y.ending, y.cur.ID) {
			o.w.fail(k.Job, "%s begins run %d of called task %d, which runs as run %d of %s", x.name, r.ID, r.Task, y.cur.ID, y.name)
		}
	}
	if o.calls.done[x.row()] > 0 && !o.mayLose() && !o.calls.dropped[x.calls.with] {
		o.w.fail(k.Job, "%s runs called task %d again, attempt %d: it has ended well, and nothing was lost", x.name, r.Task, r.Attempt)
	}
}

// callTold sees a run learn of an element, or of the end, of a call.
func (o *oracle) callTold(x *executor, v *callVar, e *comms.CallEnd) {
	if why := x.wrongEnd(v, e); why != "" {
		o.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d is told of call %v that %s", x.cur.ID, x.cur.Task, v.ref, why)
	}
}

// wrongEnd says what the model does not allow of what is told of a call; "" when it does.
func (x *executor) wrongEnd(v *callVar, e *comms.CallEnd) string {
	n := len(v.elements)
	switch {
	case v.end != nil:
		return "something has become of it: it has ended before"
	case e.Element && (len(e.Outputs) != 1 || e.Outputs[0].Ref.Element != uint64(n) || n >= v.ways.elements):
		return fmt.Sprintf("there is another element; %d of %d are there", n, v.ways.elements)
	case e.Element:
		return ""
	case v.ways.elements > 0 && (len(e.Counts) != 1 || e.Counts[0].Count != uint64(n)) && !x.w.oracle.mayLose():
		return fmt.Sprintf("its stream has %v elements: it was told of %d", e.Counts, n)
	case e.Error != nil:
		return x.groundless(v, e.Error)
	case v.ways.fails:
		return "it has ended well: its program fails"
	case v.ways.elements > 0 && n != v.ways.elements:
		return fmt.Sprintf("it has ended well with %d elements of %d", n, v.ways.elements)
	case v.ways.elements == 0 && len(e.Outputs) != v.ways.outputs:
		return fmt.Sprintf("it has returned %d of its %d outputs", len(e.Outputs), v.ways.outputs)
	}
	for _, of := range v.reads {
		if of.ways.elements == 0 && of.end != nil && of.end.Error != nil && !x.runsAgain(of) {
			return fmt.Sprintf("it has ended well: call %v, which it reads, has not", of.ref)
		}
	}
	return ""
}

// runsAgain tells whether a call may run again for another try of its parent, and end in another way
// than for what has read it before: it was dropped, or what it returned was lost.
func (x *executor) runsAgain(v *callVar) bool {
	return x.calls.prog.drops[v.act.id] || x.w.oracle.mayLose()
}

// groundless says that a call had no cause to fail so; "" when it had.
func (x *executor) groundless(v *callVar, e *comms.TaskError) string {
	f, ok := &x.w.drawn, false
	switch e.Kind {
	case comms.ErrorTask:
		own := strings.HasPrefix(e.Message, "what it called") || strings.HasPrefix(e.Message, "it may not wait")
		ok = e.Message == onPurpose && v.ways.fails || e.Message == badLuck && f.taskFails > 0 || own && x.calls.prog.depth > 1
	case comms.ErrorCancelled:
		ok = x.calls.prog.cancels[v.act.id]
	case comms.ErrorInput:
		ok = v.ofInput || slices.ContainsFunc(v.reads, func(of *callVar) bool { return of.dropped || of.end != nil && of.end.Error != nil || x.runsAgain(of) })
	case comms.ErrorPoison:
		ok = f.executorCrashes+f.executorHangs+f.linkBreaks+f.freezes > 0
	case comms.ErrorStore, comms.ErrorMemory:
		ok = f.segment > 0 && !x.lossTold(e)
	case comms.ErrorSetup:
		ok = f.spawnFails > 0 || f.far > 0 || strings.Contains(e.Message, "the tasks that wait for calls")
	case comms.ErrorTimeout:
		ok = v.limit
	}
	if !ok {
		return fmt.Sprintf("it has failed for no cause: %s: %s", e.Kind, e.Message)
	}
	return ""
}

// mayNotRead says that what a call returned must be there to be read; "" when it may be gone.
func (x *executor) mayNotRead(e *comms.TaskError) string {
	if e.Kind != comms.ErrorStore || x.w.drawn.segment == 0 || x.lossTold(e) {
		return "nothing of it was lost"
	}
	return ""
}

// jobAt names a job at an agent.
func jobAt(a *agent, job comms.JobID) rowID {
	return rowID{agent: a.name, incarn: a.incarn, job: job, task: ^dag.TaskIndex(0)}
}

// endsRun sees a run of a task of a graph, or of a called one, end well: its calls end with it.
func (o *oracle) endsRun(x *executor) {
	p := x.row()
	delete(o.calls.met, p)
	delete(o.calls.sums, p)
	x.ran[x.cur.ID] = p
}

// granted sees an agent host a task: it may have had one of that name before, which was dropped.
func (o *oracle) granted(a *agent, m *comms.Grant) {
	for i := range m.Tasks {
		o.calls.lives[rowID{agent: a.name, incarn: a.incarn, name: m.Tasks[i].Name}]++
	}
}

// knows sees an agent take the word of an executor that runs have ended well.
func (o *oracle) knows(x *executor, first, last comms.RunID) {
	for id := first; id <= last; id++ {
		if row, ok := x.ran[id]; ok {
			if o.calls.done[row]++; row.name == "" {
				row.life = 0
				o.calls.lives[row]++
			}
			delete(x.ran, id)
		}
	}
}

// leftovers says what an agent has that has nothing to do any more.
func (o *oracle) leftovers(a *agent) {
	if s := a.core.Stats(); a.running && s.Jobs+s.Runs+s.Datasets > 0 {
		o.w.fail(comms.JobID{}, "%s has %d jobs, %d runs and %d datasets after all jobs were forgotten", a.name, s.Jobs, s.Runs, s.Datasets)
	}
}
