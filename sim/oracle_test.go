package sim

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
)

// A task that is lost is given to another agent, while the one that had it makes it
// again by itself. What that one notes before it hears of the decision is void, however
// high its attempt; what is noted since is not.
func TestWhatWasNotedBeforeATaskWasGivenOutAnewIsVoid(t *testing.T) {
	for name, c := range map[string]struct {
		agent    int
		epoch    uint64
		attempts []uint32 // that end, one after the other, when the other agent has finished the try that it was given
		fails    bool
	}{
		"the try that the decision knew":    {0, 1, []uint32{1}, false},
		"tries of which it had not heard":   {0, 1, []uint32{2, 3}, false},
		"another try where it was given":    {1, 2, []uint32{1<<16 | 3}, true},
		"another try of who had it before":  {0, 2, []uint32{1<<16 | 3}, true},
		"a try of a grant that nobody made": {1, 2, []uint32{2<<16 | 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := layered(t, 1, 1, false)
			w := calm(t, 2, g)
			job := w.client.jobs[0].id
			for _, a := range w.agents {
				a.running, a.incarn = true, 1
			}
			k := core.NewKept(core.Create{Row: core.JobRecord{ID: job, Epoch: 1}}, g)
			commit := func(b core.Batch) {
				b.Number, b.Incarnation = uint64(len(k.Batches)), 1
				c := &core.Commit{Job: job, Batch: &b}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			number, ref := uint64(0), comms.DatasetRef{}
			finish := func(agent int, epoch uint64, attempt uint32) {
				number++
				d := comms.Desc{Ref: ref, Attempt: attempt, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(wordOf(job, ref))}}
				w.oracle.facts[job].begun[0] = attempt
				commit(core.Batch{Agent: w.agents[agent].name, Epoch: epoch, First: number,
					Events: []comms.Event{{Kind: comms.EventFinished, Attempt: attempt, Outputs: []comms.Desc{d}}}})
			}
			finish(0, 1, 1)
			w.oracle.facts[job].lost(0)
			commit(core.Batch{Epoch: 1, Reset: []comms.Range{{First: 0, Last: 0}}, Why: steerReason, Granting: core.GrantBegun})
			finish(1, 2, 1<<16|2)
			if w.failed != nil {
				t.Fatal(w.failed)
			}
			for _, attempt := range c.attempts {
				finish(c.agent, c.epoch, attempt)
			}
			if (w.failed != nil) != c.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}

// A generator that was skipped for a failure that counts no more starts over, and makes again what
// it had published: those who would have read that were skipped, too. One that is only tried again does not.
func TestAGeneratorThatWasSkippedInVainPublishesAgain(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`{job: j, environments: {e: {go: ./e}}, tasks: {a: {run: "e:F", out: [o]}, s: {run: "e:G", generates: {o: "*"}}}, outputs: [a.o, "s.o[*]"]}`),
		dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, skipped := range map[string]bool{"skipped in vain": true, "tried again": false} {
		t.Run(name, func(t *testing.T) {
			w := calm(t, 2, g)
			job := w.client.jobs[0].id
			for _, a := range w.agents {
				a.running, a.incarn = true, 1
			}
			k := core.NewKept(core.Create{Row: core.JobRecord{ID: job, Epoch: 1}}, g)
			number := uint64(0)
			commit := func(agent string, epoch uint64, b core.Batch) {
				b.Number, b.Agent, b.Epoch = uint64(len(k.Batches)), agent, epoch
				if b.Granting = core.GrantBegun; agent != "" {
					b.Incarnation, b.First = 1, number+1
					number += uint64(len(b.Events))
				}
				c := &core.Commit{Job: job, Batch: &b}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			says := func(epoch uint64, e comms.Event) {
				e.Task = 1
				commit(w.agents[1].name, epoch, core.Batch{Events: []comms.Event{e}})
			}
			publish := func(epoch uint64, attempt uint32) {
				says(epoch, comms.Event{Kind: comms.EventPublished, Attempt: attempt, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: 1}, Attempt: attempt}}})
			}
			publish(1, 1)
			says(1, comms.Event{Kind: comms.EventRetry, Attempt: 1, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "bad luck"}})
			commit("", 1, core.Batch{Moved: []comms.Range{{}}}) // a goes to another agent, which it had failed at
			again := uint32(2)
			if skipped {
				says(1, comms.Event{Kind: comms.EventSkipped, Attempt: 2, Cause: comms.Cause{Kind: comms.CauseTask}, Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: "a failed"}})
				commit("", 2, core.Batch{Reset: []comms.Range{{First: 1, Last: 1}}, Why: "was skipped for a failure that counts no more"})
				again = 1<<16 | 2
			}
			publish(3, again)
			if (w.failed == nil) != skipped {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}

// A job that is to fail when something differs, and has, may be run again. How many datasets
// differed the store counts over all its runs; done it is only when none did in its last.
func TestAJobThatIsDoneHasNothingThatDiffersSinceItRanLast(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`{job: j, rebuilt: fail, environments: {e: {go: ./e}}, tasks: {a: {run: "e:F", out: [o]}}, outputs: [a.o]}`),
		dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(phase comms.JobPhase, differs uint64) core.JobRecord {
		return core.JobRecord{Phase: phase, Differs: differs, Fails: phase == comms.JobFailed}
	}
	for name, c := range map[string]struct {
		rows  []core.JobRecord
		fails bool
	}{
		"nothing differed":                         {[]core.JobRecord{row(comms.JobRunning, 0), row(comms.JobDone, 0)}, false},
		"it differed, and the job went on":         {[]core.JobRecord{row(comms.JobRunning, 1), row(comms.JobDone, 1)}, true},
		"it differed before the job ran again":     {[]core.JobRecord{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobDone, 1)}, false},
		"it differed before, and when it did":      {[]core.JobRecord{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobRunning, 2), row(comms.JobDone, 2)}, true},
		"it differed when the job that ran ended":  {[]core.JobRecord{row(comms.JobFailed, 1), row(comms.JobQueued, 1), row(comms.JobDone, 3)}, true},
		"it differed, was done, and ran again":     {[]core.JobRecord{row(comms.JobDone, 1), row(comms.JobRunning, 1), row(comms.JobDone, 1)}, true},
		"it was done, ran again, and differed":     {[]core.JobRecord{row(comms.JobDone, 0), row(comms.JobRunning, 0), row(comms.JobDone, 1)}, true},
		"it ran again twice, and nothing differed": {[]core.JobRecord{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobFailed, 2), row(comms.JobRunning, 2), row(comms.JobDone, 2)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t, 1, g)
			job := w.client.jobs[0].id
			k := core.NewKept(core.Create{Row: core.JobRecord{ID: job, Phase: comms.JobRunning}}, g)
			for _, r := range c.rows {
				r.ID = job
				commit := &core.Commit{Job: job, Row: &r}
				w.oracle.committed(k, commit)
				k.Apply(commit)
			}
			if (w.failed != nil) != c.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}
