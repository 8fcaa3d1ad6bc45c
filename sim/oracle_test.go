package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
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
			k := core.NewKept(core.Create{Row: records.Job{ID: job, Epoch: 1}}, g)
			commit := func(b records.Batch) {
				b.Number, b.Incarnation = uint64(len(k.Batches)), 1
				c := &records.Commit{Job: job, Batch: &b}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			number, ref := uint64(0), comms.DatasetRef{}
			finish := func(agent int, epoch uint64, attempt uint32) {
				number++
				d := comms.Desc{Ref: ref, Attempt: attempt, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(wordOf(job, ref))}}
				w.oracle.facts[job].begun[0] = attempt
				commit(records.Batch{Agent: w.agents[agent].name, Epoch: epoch, First: number,
					Events: []comms.Event{{Kind: comms.EventFinished, Attempt: attempt, Outputs: []comms.Desc{d}}}})
			}
			finish(0, 1, 1)
			w.oracle.facts[job].lost(0)
			commit(records.Batch{Epoch: 1, Reset: []comms.Range{{First: 0, Last: 0}}, Why: steerReason, Granting: records.GrantBegun})
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

// A task that is made again for a loss ends with the copy that came back meanwhile, from the store: its first
// publication counts. An attempt publishes once.
func TestAnAttemptPublishesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		attempt, made uint32 // of the end that comes behind that of the first attempt, and by which its output was made
		fails         bool
	}{
		"again by the same":           {1, 1, true},
		"by a later one":              {2, 2, false},
		"a later one tells of a copy": {2, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := layered(t, 1, 1, false)
			end := func(attempt, made uint32) comms.Event {
				return comms.Event{Kind: comms.EventFinished, Attempt: attempt, Outputs: []comms.Desc{{Attempt: made}}}
			}
			retry := comms.Event{Kind: comms.EventRetry, Attempt: 1}
			lost := comms.Event{Kind: comms.EventLost, Attempt: 1, Cause: comms.Cause{Kind: comms.CauseDataset}}
			says := judged(t, g, []records.Batch{{Epoch: 1, Events: []comms.Event{end(1, 1), lost, retry, end(c.attempt, c.made)}}})
			if strings.Contains(says, "published twice") != c.fails {
				t.Errorf("the oracle says %q", says)
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
			k := core.NewKept(core.Create{Row: records.Job{ID: job, Epoch: 1}}, g)
			number := uint64(0)
			commit := func(agent string, epoch uint64, b records.Batch) {
				b.Number, b.Agent, b.Epoch = uint64(len(k.Batches)), agent, epoch
				if b.Granting = records.GrantBegun; agent != "" {
					b.Incarnation, b.First = 1, number+1
					number += uint64(len(b.Events))
				}
				c := &records.Commit{Job: job, Batch: &b}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			says := func(epoch uint64, e comms.Event) {
				e.Task = 1
				commit(w.agents[1].name, epoch, records.Batch{Events: []comms.Event{e}})
			}
			publish := func(epoch uint64, attempt uint32) {
				says(epoch, comms.Event{Kind: comms.EventPublished, Attempt: attempt, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: 1}, Attempt: attempt}}})
			}
			publish(1, 1)
			says(1, comms.Event{Kind: comms.EventRetry, Attempt: 1, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "bad luck"}})
			commit("", 1, records.Batch{Moved: []comms.Range{{}}}) // a goes to another agent, which it had failed at
			again := uint32(2)
			if skipped {
				says(1, comms.Event{Kind: comms.EventSkipped, Attempt: 2, Cause: comms.Cause{Kind: comms.CauseTask}, Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: "a failed"}})
				commit("", 2, records.Batch{Reset: []comms.Range{{First: 1, Last: 1}}, Why: "was skipped for a failure that counts no more"})
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
	row := func(phase comms.JobPhase, differs uint64) records.Job {
		return records.Job{Phase: phase, Differs: differs, Fails: phase == comms.JobFailed}
	}
	for name, c := range map[string]struct {
		rows  []records.Job
		fails bool
	}{
		"nothing differed":                         {[]records.Job{row(comms.JobRunning, 0), row(comms.JobDone, 0)}, false},
		"it differed, and the job went on":         {[]records.Job{row(comms.JobRunning, 1), row(comms.JobDone, 1)}, true},
		"it differed before the job ran again":     {[]records.Job{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobDone, 1)}, false},
		"it differed before, and when it did":      {[]records.Job{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobRunning, 2), row(comms.JobDone, 2)}, true},
		"it differed when the job that ran ended":  {[]records.Job{row(comms.JobFailed, 1), row(comms.JobQueued, 1), row(comms.JobDone, 3)}, true},
		"it differed, was done, and ran again":     {[]records.Job{row(comms.JobDone, 1), row(comms.JobRunning, 1), row(comms.JobDone, 1)}, true},
		"it was done, ran again, and differed":     {[]records.Job{row(comms.JobDone, 0), row(comms.JobRunning, 0), row(comms.JobDone, 1)}, true},
		"it ran again twice, and nothing differed": {[]records.Job{row(comms.JobFailed, 1), row(comms.JobRunning, 1), row(comms.JobFailed, 2), row(comms.JobRunning, 2), row(comms.JobDone, 2)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t, 1, g)
			job := w.client.jobs[0].id
			k := core.NewKept(core.Create{Row: records.Job{ID: job, Phase: comms.JobRunning}}, g)
			for _, r := range c.rows {
				r.ID = job
				commit := &records.Commit{Job: job, Row: &r}
				w.oracle.committed(k, commit)
				k.Apply(commit)
			}
			if (w.failed != nil) != c.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}

// In a job that is done, what tasks have read is what there is, as far as anybody can tell (decision 34).
func TestWhatIsDoneHasReadWhatThereIs(t *testing.T) {
	const a, b, c = 0, 1, 2
	ref := func(t dag.TaskIndex) comms.DatasetRef { return comms.DatasetRef{Task: t} }
	for name, story := range map[string]struct {
		policy string
		bare   []copyID // by task and attempt: those without a hash
		told   []copyID // of which an event said where they lie, in this order
		fails  bool
	}{
		"what it has read was made again":                     {"rerun", nil, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, true},
		"what it has read is there":                           {"rerun", nil, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}}, false},
		"nobody minds":                                        {"accept", nil, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, false},
		"it had no hash, nor has it":                          {"rerun", []copyID{{ref: ref(a), attempt: 1}, {ref: ref(a), attempt: 2}}, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, false},
		"it had no hash, and has one":                         {"rerun", []copyID{{ref: ref(a), attempt: 1}}, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, true},
		"nobody told of another that it has read":             {"rerun", nil, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(a), attempt: 2}}, false},
		"the job is to fail, and it had no hash, as no other": {"fail", []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}}, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, false},
		"the job is to fail, and it had no hash, and another": {"fail", []copyID{{ref: ref(a), attempt: 1}}, []copyID{{ref: ref(a), attempt: 1}, {ref: ref(b), attempt: 1}, {ref: ref(a), attempt: 2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := dag.ParseYAML("job.yaml", fmt.Appendf(nil, `{job: j, rebuilt: %s, environments: {e: {go: ./e}}, tasks: {a: {run: "e:F", out: [o]}, b: {run: "e:F", out: [o]},
				c: {run: "e:F", in: {x: a.o, y: b.o}, out: [o]}}, outputs: [c.o]}`, story.policy), dag.Override{}, dag.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := calm(t, 1, g)
			w.fate.varies = 1000
			o, job := w.oracle, w.client.jobs[0].id
			f := o.facts[job]
			k := core.NewKept(core.Create{Row: records.Job{ID: job, Epoch: 1, Phase: comms.JobRunning}}, g)
			for i := range dag.TaskIndex(3) {
				f.done[i] = 1
				k.Apply(&records.Commit{Job: job, Batch: &records.Batch{Number: uint64(len(k.Batches)), Agent: w.agents[0].name, Incarnation: 1, Epoch: 1, First: uint64(i) + 1,
					Events: []comms.Event{{Kind: comms.EventFinished, Task: i, Attempt: 1, Outputs: []comms.Desc{{Ref: ref(i), Attempt: 1}}}}}})
			}
			k.Apply(&records.Commit{Job: job, Row: &records.Job{ID: job, Epoch: 1, Phase: comms.JobDone}})
			for attempt := range uint32(3) {
				o.wrote(w.agents[0].name, copyID{job, ref(a), attempt}, fmt.Sprint(attempt))
			}
			for _, id := range story.bare {
				o.bare[copyID{job, id.ref, id.attempt}] = true
			}
			for _, id := range story.told {
				o.shared[copyID{job, id.ref, id.attempt}], f.current[id.ref] = w.agents[0].name, id.attempt
			}
			for _, t := range []dag.TaskIndex{a, b} {
				f.read[c] = append(f.read[c], dataRead{comms.Desc{Ref: ref(t), Attempt: 1, Place: comms.Place{Kind: comms.PlaceSegment}}, "1"})
			}
			o.fits(job, k, k.Past())
			if (w.failed != nil) != story.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}

// An agent that was away too long may run a job that another has done since, and of a job that only
// one agent ever had both number their attempts alike: what counts is read by the agent whose end is stored.
func TestWhatCountsIsReadByWhoseEndIsStored(t *testing.T) {
	const a, b = 0, 1
	g := layered(t, 2, 1, false)
	for name, story := range map[string]struct {
		stored int // the agent
		fails  bool
	}{
		"it has read what there is":         {0, false},
		"it has read what was made earlier": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t, 2, g)
			w.fate.varies = 1000
			job := w.client.jobs[0].id
			k := core.NewKept(core.Create{Row: records.Job{ID: job, Epoch: 1, Phase: comms.JobRunning}}, g)
			made := func(t dag.TaskIndex, attempt uint32) comms.Desc {
				w.oracle.wrote(w.agents[0].name, copyID{job, comms.DatasetRef{Task: t}, attempt}, fmt.Sprint(t, attempt))
				return comms.Desc{Ref: comms.DatasetRef{Task: t}, Attempt: attempt, Place: comms.Place{Kind: comms.PlaceSegment}}
			}
			for i, attempt := range []uint32{2, 1} { // of a, by agent
				x := &executor{process: process{w: w}, a: w.agents[i]}
				x.reads(&comms.Run{Task: b, Attempt: 1, Inputs: []comms.RunInput{{Data: []comms.Desc{made(a, attempt)}}}}, &comms.Kind{Job: job})
			}
			for n, d := range []comms.Desc{made(a, 2), made(b, 1)} {
				c := &records.Commit{Job: job, Batch: &records.Batch{Number: uint64(n), Agent: w.agents[story.stored].name, Incarnation: 1, Epoch: 1, First: uint64(n) + 1,
					Events: []comms.Event{{Kind: comms.EventFinished, Task: d.Ref.Task, Attempt: d.Attempt, Outputs: []comms.Desc{d}}}}}
				w.oracle.committed(k, c)
				k.Apply(c)
			}
			k.Apply(&records.Commit{Job: job, Row: &records.Job{ID: job, Epoch: 1, Phase: comms.JobDone}})
			if w.oracle.fits(job, k, k.Past()); (w.failed != nil) != story.fails {
				t.Errorf("the oracle says %v", w.failed)
			}
		})
	}
}

// afterwards says that a task failed, which the controller hears when its job has ended.
func afterwards(t dag.TaskIndex, attempt uint32) comms.Event {
	return comms.Event{Kind: comms.EventFailed, Task: t, Attempt: attempt, Output: neverStored}
}

const neverStored = 1 << 30

// In a job that is over, what was skipped or cancelled had a cause that counts: the task that it was for has
// ended badly, too, and it lacks something or the job was stopped. A client may have that task run again alone.
func TestWhatEndsBadlyHasACauseThatCounts(t *testing.T) {
	const a, b, c, list = 0, 1, 2, 3
	finished := func(t dag.TaskIndex, attempt uint32) comms.Event {
		return comms.Event{Kind: comms.EventFinished, Task: t, Attempt: attempt, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: t}, Attempt: attempt}}}
	}
	failed := func(t dag.TaskIndex) comms.Event {
		return comms.Event{Kind: comms.EventFailed, Task: t, Attempt: 1, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "bad luck"}}
	}
	skipped := func(t dag.TaskIndex, cause comms.Cause) comms.Event {
		return comms.Event{Kind: comms.EventSkipped, Task: t, Attempt: 1, Cause: cause, Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: "something failed"}}
	}
	cancelled := func(t dag.TaskIndex) comms.Event {
		return comms.Event{Kind: comms.EventCancelled, Task: t, Attempt: 1, Error: &comms.TaskError{Kind: comms.ErrorCancelled, Message: "the job stopped"}}
	}
	of := func(t dag.TaskIndex) comms.Cause {
		return comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: t}}
	}
	says := func(epoch uint64, events ...comms.Event) records.Batch {
		return records.Batch{Epoch: epoch, Events: events}
	}
	anew := func(why string, last dag.TaskIndex) records.Batch {
		return records.Batch{Epoch: 1, Why: why, Reset: []comms.Range{{Last: last}}, Granting: records.GrantBegun}
	}
	const again = 1<<16 | 2
	for name, story := range map[string]struct {
		goesOn bool // the job, when a task fails
		told   []records.Batch
		fails  string
	}{
		"what it reads had to run again, and that it failed came after the end": {true, []records.Batch{
			says(1, finished(a, 1), skipped(b, of(a)), failed(c), finished(list, 1), afterwards(a, 2))}, ""},
		"that it failed before does not count": {true, []records.Batch{
			says(1, finished(a, 3), skipped(b, of(a)), failed(c), finished(list, 1), afterwards(a, 2))}, "b skipped, and a, for which it is, is done"},
		"what it reads has failed": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), finished(c, 1), finished(list, 1))}, ""},
		"what it reads was made in the end": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a))), anew("", a), says(2, finished(a, again), finished(c, 1), finished(list, 1))}, "b skipped, and a, for which it is, is done"},
		"it says that another failed": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(c)), finished(c, 1), finished(list, 1))}, "b skipped, and c, for which it is, is done"},
		"it does not say what failed, and something has": {true, []records.Batch{
			says(1, failed(a), skipped(b, comms.Cause{}), finished(c, 1), finished(list, 1))}, ""},
		"it does not say what failed, and nothing has": {true, []records.Batch{
			says(1, finished(a, 1), skipped(b, comms.Cause{}), finished(c, 1), finished(list, 1))}, "b skipped, and all that it reads is there"},
		"it did not need what failed": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), skipped(c, of(a)), finished(list, 1))}, "c skipped, and all that it reads is there"},
		"the job was stopped": {false, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), skipped(c, of(a)), skipped(list, of(a)))}, ""},
		"a controller has stopped the job for what failed": {false, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), cancelled(c), cancelled(list))}, ""},
		"a controller has stopped the job for what may fail": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), cancelled(c), finished(list, 1))}, "c cancelled, and all that it reads is there"},
		"the job was stopped, and what failed was made in the end": {false, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), skipped(c, of(a)), finished(list, 1)), anew("", b), says(2, finished(a, again), finished(b, again))},
			"c skipped, and a, for which it is, is done"},
		"the same, as a client wanted": {false, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), skipped(c, of(a)), finished(list, 1)), anew(steerReason, b), says(2, finished(a, again), finished(b, again))}, ""},
		"a list has as much as it must": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), finished(c, 1), skipped(list, of(a)))}, "list skipped, and all that it reads is there"},
		"a list has too little": {true, []records.Batch{
			says(1, failed(a), skipped(b, of(a)), failed(c), skipped(list, of(a)))}, ""},
		"nothing has failed": {true, []records.Batch{
			says(1, finished(a, 1), finished(b, 1), finished(c, 1), finished(list, 1))}, "the job has failed although none of its tasks did: <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := dag.ParseYAML("job.yaml", fmt.Appendf(nil, `{job: j, keep_going: %t, environments: {e: {go: ./e}}, tasks: {a: {run: "e:F", out: [o]}, b: {run: "e:F", in: {x: a.o}, out: [o]},
				c: {run: "e:F", out: [o]}, list: {run: "e:F", in: {x: {from: [a.o, c.o], min: 1}}, out: [o]}}, outputs: [b.o, c.o, list.o]}`, story.goesOn), dag.Override{}, dag.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := judged(t, g, story.told)
			if !strings.HasSuffix(got, story.fails) || got != "" && story.fails == "" {
				t.Errorf("the oracle says %q instead of %q", got, story.fails)
			}
		})
	}
}

// judged returns what the oracle says of a job that has failed after batches are stored.
func judged(t *testing.T, g *dag.Graph, told []records.Batch) (says string) {
	w := calm(t, 1, g)
	job, agent := w.client.jobs[0].id, w.agents[0]
	agent.running, agent.incarn, agent.sent = true, 1, map[uint64]sentEvent{}
	w.oracle.facts[job].shared, w.oracle.facts[job].blamed = true, true
	k, number := core.NewKept(core.Create{Row: records.Job{ID: job, Epoch: 1, Phase: comms.JobRunning}}, g), uint64(0)
	commit := func(c records.Commit) {
		c.Job = job
		w.oracle.committed(k, &c)
		k.Apply(&c)
		w.oracle.settled(k, &c)
	}
	for _, batch := range told {
		batch.Events = slices.DeleteFunc(batch.Events, func(e comms.Event) bool {
			if e.Output != neverStored {
				return false
			}
			w.oracle.toController(agent, &comms.Events{First: 1000, Jobs: []comms.JobEvents{{Job: job, Events: []comms.Event{e}}}})
			return true
		})
		if batch.Number = uint64(len(k.Batches)); batch.Events != nil {
			batch.Agent, batch.Incarnation, batch.First = agent.name, 1, number+1
			number += uint64(len(batch.Events))
		}
		commit(records.Commit{Batch: &batch})
	}
	commit(records.Commit{Row: &records.Job{ID: job, Epoch: 2, Phase: comms.JobFailed}})
	if w.failed == nil {
		return ""
	}
	return w.failed.Error()
}

// A generator that was cancelled, and runs again for an element that is lost, may make others: what those that follow
// them read, too, and was let go, is made again. Nothing is let go for one that is done.
func TestWhatFollowersReadIsMadeAgainWithTheirGenerator(t *testing.T) {
	const a, gen, other, first = 0, 1, 2, 3
	g, err := dag.ParseYAML("job.yaml", []byte(`{job: j, environments: {e: {go: ./e}}, tasks: {a: {run: "e:F", out: [o]}, g: {run: "e:F", generates: {x: "*"}}, z: {run: "e:F", out: [o]},
		u: {run: "e:F", for: {i: "g.x[*]"}, in: {x: "g.x[${i}]", y: a.o}, out: [o]}}, outputs: ["g.x[*]", "u[*].o"]}`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	event := func(kind comms.EventKind, t dag.TaskIndex) comms.Event {
		e := comms.Event{Kind: kind, Task: t, Attempt: 1}
		if kind == comms.EventFailed {
			e.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: "bad luck"}
		}
		if kind == comms.EventFinished && t != gen || kind == comms.EventPublished {
			e.Outputs = []comms.Desc{{Ref: comms.DatasetRef{Task: t}, Attempt: 1}}
		}
		return e
	}
	for name, c := range map[string]struct {
		end   comms.EventKind
		fails bool
	}{"cancelled": {comms.EventCancelled, false}, "failed": {comms.EventFailed, false}, "done": {comms.EventFinished, true}} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, g, []records.Batch{
				{Epoch: 1, Events: []comms.Event{event(comms.EventFinished, a), event(comms.EventPublished, gen), event(comms.EventFinished, first),
					event(comms.EventFailed, other), event(c.end, gen)}},
				{Epoch: 1, Why: steerReason, Reset: []comms.Range{{First: a, Last: gen}}, Granting: records.GrantBegun}})
			if strings.Contains(got, "task 0 is made to start over") != c.fails {
				t.Errorf("the oracle says %q", got)
			}
		})
	}
}

// The list of what follows a generator is as long as its stream is now. When it runs again and fails sooner, what was
// made for elements before is still there, and is not of the list any more.
func TestAListIsAsLongAsItsStream(t *testing.T) {
	const gen, list, first, again = 0, 1, 2, 1<<16 | 2
	g, err := dag.ParseYAML("job.yaml", []byte(`{job: j, keep_going: true, environments: {e: {go: ./e}}, tasks: {g: {run: "e:F", generates: {x: "*"}}, u: {run: "e:F", for: {i: "g.x[*]"}, in: {x: "g.x[${i}]"}, out: [o]},
		list: {run: "e:F", in: {x: {from: "u[*].o", min: 1}}, out: [o]}}, outputs: ["u[*].o"]}`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made := func(kind comms.EventKind, t dag.TaskIndex, attempt uint32) comms.Event {
		return comms.Event{Kind: kind, Task: t, Attempt: attempt, Outputs: []comms.Desc{{Ref: comms.DatasetRef{Task: t}, Attempt: attempt}}}
	}
	element := made(comms.EventPublished, gen, again)
	ends := []comms.Event{
		{Kind: comms.EventFailed, Task: gen, Attempt: again, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "bad luck"}},
		{Kind: comms.EventSkipped, Task: list, Attempt: 1, Cause: comms.Cause{Kind: comms.CauseTask}, Error: &comms.TaskError{Kind: comms.ErrorSkipped, Message: "g failed"}},
	}
	for name, story := range map[string]struct {
		told  []comms.Event // when the generator runs again
		fails string
	}{
		"the element did not come again": {ends, ""},
		"the element came again":         {append([]comms.Event{element}, ends...), "list skipped, and all that it reads is there"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, g, []records.Batch{
				{Epoch: 1, Events: []comms.Event{made(comms.EventPublished, gen, 1), made(comms.EventFinished, first, 1),
					{Kind: comms.EventLost, Task: gen, Cause: comms.Cause{Ref: comms.DatasetRef{Task: gen}}}}},
				{Epoch: 1, Why: "lost with agent a", Reset: []comms.Range{{First: gen, Last: gen}}, Granting: records.GrantBegun},
				{Epoch: 2, Events: story.told},
			})
			if !strings.HasSuffix(got, story.fails) || got != "" && story.fails == "" {
				t.Errorf("the oracle says %q instead of %q", got, story.fails)
			}
		})
	}
}
