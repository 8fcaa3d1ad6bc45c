package core

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/memo"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// world is a core with a store, a clock and peers made of maps: see testdata for
// what it reads and prints.
type world struct {
	t        *testing.T
	c        *Core
	cfg      Config
	now      time.Time
	graphs   map[string]*dag.Graph // by name
	links    map[string]LinkID
	next     LinkID
	todo     []Action // slow ones, not done yet
	kept     map[comms.JobID]*Kept
	rows     map[string]records.Agent
	assigned map[comms.JobID]comms.Assign // the last one of each job
	full     map[LinkID][]Send            // links that have no room, and what they would have got
	nospace  bool
	held     int64 // bytes that tasks needed before, 0 unknown
	restarts []RestartReason
	out      strings.Builder
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			t.Skip()
		}
		play(t, path)
	})
}

// play replays a transcript in a new world, and returns that.
func play(t *testing.T, path string) *world {
	w := &world{t: t, now: time.Unix(1000, 0).UTC(), graphs: map[string]*dag.Graph{}, kept: map[comms.JobID]*Kept{}, rows: map[string]records.Agent{}, assigned: map[comms.JobID]comms.Assign{}}
	w.start()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		w.out.Reset()
		if err := w.run(d); err != nil {
			d.Fatalf(t, "%v", err)
		}
		if w.out.Len() == 0 {
			return "ok\n"
		}
		return w.out.String()
	})
	return w
}

func (w *world) start() {
	w.c, w.links, w.full = New(w.cfg), map[string]LinkID{}, map[LinkID][]Send{}
	w.todo = nil
	for _, name := range slices.Sorted(maps.Keys(w.rows)) {
		w.step(Known{w.rows[name]})
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.kept), func(a, b comms.JobID) int { return slices.Compare(a[:], b[:]) }) {
		w.step(w.kept[id].Loaded())
	}
	w.step(Started{})
}

// step gives the core an event, prints what it does at once, and keeps what is slow.
func (w *world) step(ev Event) {
	var again []Event
	for _, a := range w.c.Step(w.now, ev) {
		if s, ok := a.(Send); ok {
			if q, isFull := w.full[s.Link]; isFull {
				if len(q) == 0 {
					again = append(again, Full{s.Link})
				}
				w.full[s.Link] = append(q, s)
				continue
			}
		}
		w.print(a)
		switch a := a.(type) {
		case Send:
			if m, ok := a.Msg.(*comms.Assign); ok {
				w.assigned[m.Job] = *m
			}
		case StoreAgent:
			w.rows[a.Row.Name] = a.Row
		}
		switch a.(type) {
		case Send, Wake, CloseLink, StoreAgent, Warn, Differs:
		default:
			w.todo = append(w.todo, a)
		}
	}
	if err := w.c.Check(); err != nil {
		w.t.Fatalf("after %T: %v\n%s", ev, err, w.out.String())
	}
	for _, ev := range again {
		w.step(ev)
	}
}

// settle completes the slow actions of one kind, or all, until none is left.
func (w *world) settle(kind string) {
	for i := 0; i < len(w.todo); {
		a := w.todo[i]
		if kind != "" && !strings.EqualFold(kind, strings.TrimPrefix(fmt.Sprintf("%T", a), "core.")) {
			i++
			continue
		}
		w.todo = slices.Delete(w.todo, i, i+1)
		w.complete(a)
		i = 0
	}
}

// known is what is known of the tasks of a graph: nothing, or how much memory they needed.
func (w *world) known(g *dag.Graph) profiles.Snapshot {
	if w.held == 0 {
		return profiles.Snapshot{}
	}
	b := profiles.NewBook()
	for i := range g.Groups {
		sig := planner.SignatureOf(g, i)
		b.Record(sig, profiles.Sample{Seconds: 1})
		b.Hold(sig, float64(w.held))
	}
	return b.Snapshot()
}

func (w *world) complete(a Action) {
	switch a := a.(type) {
	case Prepare:
		ev := Prepared{Token: a.Token, Job: a.Job, Graph: a.Graph}
		name := ""
		if a.Submit != nil {
			name = string(a.Submit.Graph)
		} else if a.Graph == nil {
			name = string(w.kept[a.Job].Bytes)
		}
		if ev.Graph == nil {
			ev.Graph, ev.Bytes = w.graphs[name], []byte(name)
		}
		if ev.Graph == nil {
			ev.Err, ev.Code = "graph: not a graph", comms.CodeBadRequest
		} else {
			plans := planner.Make
			if w.cfg.Spread {
				plans = planner.Spread
			}
			plan, err := plans(ev.Graph, w.known(ev.Graph), a.Cluster)
			if err != nil {
				w.t.Fatal(err)
			}
			ev.Plan = plan
		}
		if a.Past {
			ev.Past = w.kept[a.Job].Past()
		}
		if a.Resume != nil {
			ev.Earlier = w.earlier(ev.Graph, a.Resume)
		}
		w.step(ev)
	case Improve:
		if a.First == nil {
			plan, err := planner.Order(a.Graph, w.known(a.Graph), a.Cluster)
			if err != nil {
				w.t.Fatal(err)
			}
			w.step(Improved{Token: a.Token, Job: a.Job, Plan: plan})
			return
		}
		plan, err := planner.Better(a.Graph, a.First, a.Cluster, a.Effort)
		if err != nil {
			w.t.Fatal(err)
		}
		if !a.Urgent { // any other order will do
			other := *plan
			other.Method, other.Turns = "the test", slices.Clone(plan.Turns)
			slices.Reverse(other.Turns)
			plan = &other
		}
		w.step(Improved{Token: a.Token, Job: a.Job, Plan: plan})
	case Create:
		ev := Stored{Token: a.Token}
		if w.nospace {
			ev.Err, ev.Code = "the disk is nearly full", comms.CodeUnavailable
		} else {
			w.kept[a.Row.ID] = NewKept(a, w.graphs[string(a.Graph)])
		}
		w.step(ev)
	case Store:
		if k := w.kept[a.Commit.Job]; k != nil {
			k.Apply(&a.Commit)
		}
		if b := a.Commit.Batch; b != nil && len(b.Reset) > 0 {
			w.restarts = append(w.restarts, a.Reason)
		}
		w.step(Stored{Token: a.Token, Bytes: 10})
	case Delete:
		delete(w.kept, a.Job)
		w.step(Stored{Token: a.Token})
	case Ask:
		w.step(Answered{Token: a.Token, Msg: w.answer(a.Msg)})
	}
}

// earlier compares as the driver does.
func (w *world) earlier(g *dag.Graph, r *comms.Resume) *Earlier {
	old := w.kept[r.Job]
	if old == nil {
		return nil
	}
	states := old.Past().States
	contents := []comms.Content{{Name: memo.Environment + "e", Hash: "b"}}
	found := memo.Compare(&memo.Past{Job: memo.Job{Graph: old.Graph, Contents: contents}, Elements: states.Elements, State: func(t dag.TaskIndex) string {
		s, _ := states.Get(t)
		return s.String()
	}}, &memo.Job{Graph: g, Contents: contents}, func(t dag.TaskIndex) bool { return slices.Contains(r.Again, g.TaskName(t)) })
	e := &Earlier{Ends: found.Ends}
	for _, p := range found.Same {
		e.Same = append(e.Same, Pair(p))
	}
	for _, why := range found.Why {
		e.Why = append(e.Why, records.Reason(why))
	}
	return e
}

func (w *world) answer(m comms.Message) comms.Message {
	if q, ok := m.(*comms.Watch); ok {
		if w.kept[q.Job] == nil {
			return &comms.Reply{Req: q.Req, Code: comms.CodeNotFound, Message: "no such job"}
		}
		return EndOf(&w.kept[q.Job].Row, q.Req)
	}
	return &comms.Page{}
}

func testJob(n string) (j comms.JobID) {
	i, err := strconv.Atoi(n)
	if err != nil {
		panic(err)
	}
	j[15] = byte(i)
	return j
}

func jobName(j comms.JobID) string { return fmt.Sprintf("job%d", j[15]) }

func arg(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return def
}

func has(d *datadriven.TestData, key string) bool {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return true
		}
	}
	return false
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (w *world) run(d *datadriven.TestData) error {
	who := "c"
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		who = d.CmdArgs[0].Key
	}
	job := testJob(arg(d, "job", "1"))
	switch d.Cmd {
	case "graph":
		g, err := dag.ParseYAML("job.yaml", []byte(d.Input), dag.Override{}, dag.Options{})
		if at := arg(d, "session", ""); at != "" { // of a program that is attached to that agent
			g, err = dag.NewSession("session s", at, "")
		}
		if err != nil {
			return err
		}
		w.graphs[who] = g
	case "config":
		var err error
		if w.cfg.TTL, err = time.ParseDuration(arg(d, "ttl", "0s")); err != nil {
			return err
		}
		w.cfg.Spread = has(d, "spread")
		w.held = int64(number(arg(d, "held", "0"))) << 20 // what tasks of all groups needed before, in MiB
		if w.cfg.Steal, err = time.ParseDuration(arg(d, "steal", "0s")); err != nil {
			return err
		}
		w.cfg.Effort.Evaluations = int(number(arg(d, "evaluations", "0")))
		w.cfg.MaxEnded, w.cfg.MaxStored = int(number(arg(d, "max", "0"))), number(arg(d, "bytes", "0"))
		w.start()
	case "client", "agent":
		w.up(d, who)
	case "down":
		ev := LinkDown{Link: w.links[who]}
		switch why := arg(d, "why", "silent"); why {
		case "silent":
		case "ended":
			ev.Why = records.LossEnded
		default:
			return fmt.Errorf("down: unknown why %q", why)
		}
		if ago, err := time.ParseDuration(arg(d, "since", "")); err == nil {
			ev.Since = w.now.Add(-ago)
			quiet, err := time.ParseDuration(arg(d, "quiet", "0s"))
			if err != nil {
				return err
			}
			ev.Heard = ev.Since.Add(-quiet)
		}
		w.step(ev)
		delete(w.links, who)
	case "full":
		w.full[w.links[who]] = nil
	case "free":
		held := w.full[w.links[who]]
		delete(w.full, w.links[who])
		for _, s := range held {
			w.print(s)
		}
		w.step(Free{w.links[who]})
	case "events":
		m, err := w.events(d, job)
		if err != nil {
			return err
		}
		w.step(Received{w.links[who], m})
	case "builds": // how long the environments of graph g took
		for i := range w.graphs["g"].Environments {
			e := &w.graphs["g"].Environments[i]
			fmt.Fprintf(&w.out, "%s %v\n", e.Name, w.c.builds[planner.EnvironmentID(e)])
		}
	case "settle":
		if who == "c" {
			who = ""
		}
		w.settle(who)
	case "leave":
		m := &comms.DrainStatus{Leaving: true, Gone: has(d, "gone")}
		for l := range strings.Lines(d.Input) {
			var r comms.Range
			if _, err := fmt.Sscanf(l, "%d to %d", &r.First, &r.Last); err != nil {
				return err
			}
			if len(m.Jobs) == 0 {
				m.Jobs = []comms.JobInHand{{Job: job, JobIncarnation: w.c.jobs[job].rec.JobIncarnation}}
			}
			m.Jobs[0].Held = append(m.Jobs[0].Held, r)
		}
		w.step(Received{w.links[who], m})
	case "backlog":
		m := &comms.LoadReport{Free: int64(number(arg(d, "free", "0")))}
		for l := range strings.Lines(d.Input) {
			j := comms.JobLoad{Epoch: number(arg(d, "epoch", "1")), Tasks: 1}
			if _, err := fmt.Sscanf(l, "job%d %f", &j.Job[15], &j.Seconds); err != nil {
				return err
			}
			j.JobIncarnation = w.c.jobs[j.Job].life
			m.Jobs = append(m.Jobs, j)
		}
		w.step(Received{w.links[who], m})
	case "where":
		m := &comms.Where{Ask: number(arg(d, "ask", "1")), Calls: number(arg(d, "calls", "0")), Bytes: number(arg(d, "bytes", "0")), Here: !has(d, "strange"),
			Needs: comms.Resources{GPU: int64(number(arg(d, "gpu", "0"))) * 1000},
			Load:  &comms.Load{Waiting: number(arg(d, "waiting", "0")), Running: number(arg(d, "running", "0")), Seconds: float64(number(arg(d, "ms", "0"))) / 1000}}
		if without := arg(d, "without", ""); without != "" {
			m.Without = []string{without}
		}
		if platforms := arg(d, "platforms", ""); platforms != "" {
			m.Platforms = strings.Split(platforms, ";")
		}
		w.step(Received{w.links[who], m})
	case "spared":
		m := &comms.StealReply{Job: job, JobIncarnation: w.c.jobs[job].life, Epoch: number(arg(d, "epoch", "1"))}
		for l := range strings.Lines(d.Input) {
			var r comms.Range
			if _, err := fmt.Sscanf(l, "%d to %d", &r.First, &r.Last); err != nil {
				return err
			}
			m.Tasks = append(m.Tasks, r)
		}
		w.step(Received{w.links[who], m})
	case "muster":
		states := map[string]comms.GangState{"not": comms.GangWaiting, "ready": comms.GangReady, "held": comms.GangReserved, "started": comms.GangStarted}
		m := &comms.GangStatus{Job: job, JobIncarnation: w.c.jobs[job].life, Epoch: number(arg(d, "epoch", strconv.FormatUint(w.assigned[job].Epoch, 10))),
			Task: dag.TaskIndex(number(arg(d, "task", "0"))), State: states[d.CmdArgs[1].Key], Turn: number(arg(d, "turn", "0"))}
		if m.State == comms.GangReserved {
			m.Members = strings.Fields(d.Input)
		}
		w.step(Received{w.links[who], m})
	case "departed":
		w.step(Departed{Job: job})
	case "paused":
		w.step(Paused{Why: d.Input})
	case "nospace":
		w.nospace = !w.nospace
	case "wait":
		by, err := time.ParseDuration(arg(d, "by", "1s"))
		if err != nil {
			return err
		}
		w.now = w.now.Add(by)
		w.step(Tick{})
	case "restart":
		w.start()
	default:
		m, err := request(d, who, job)
		if err != nil {
			return err
		}
		w.step(Received{w.links["c"], m})
	}
	return nil
}

// request is what a client asks.
func request(d *datadriven.TestData, what string, job comms.JobID) (comms.Message, error) {
	req := number(arg(d, "req", "1"))
	switch d.Cmd {
	case "submit":
		graph := arg(d, "graph", "")
		every, err := time.ParseDuration(arg(d, "every", "0s"))
		var resume *comms.Resume
		if n := arg(d, "resume", ""); n != "" {
			if resume = (&comms.Resume{Job: testJob(n)}); has(d, "again") {
				resume.Again = []string{arg(d, "again", "")}
			}
		}
		return &comms.Submit{Resume: resume, Req: req, Job: job, Graph: []byte(graph), GraphHash: comms.Hash(graph), Tenant: arg(d, "tenant", ""),
			Hold: has(d, "hold"), Keep: has(d, "keep"), Watch: has(d, "watch"), Every: int64(every), Values: has(d, "values")}, err
	case "watch":
		every, err := time.ParseDuration(arg(d, "every", "0s"))
		return &comms.Watch{Req: req, Job: job, Every: int64(every), Events: has(d, "events"), Values: has(d, "values"),
			Outputs: strings.Fields(arg(d, "outputs", ""))}, err
	case "control":
		acts := map[string]comms.SteerAction{"cancel": comms.SteerCancel, "hold": comms.SteerHold, "release": comms.SteerRelease, "forget": comms.SteerForget, "rerun": comms.SteerRerun}
		m := &comms.Control{Req: req, Job: job, Action: acts[what], Reason: arg(d, "why", "")}
		for _, a := range d.CmdArgs {
			if a.Key == "tasks" {
				m.Tasks = strings.Split(strings.Join(a.Vals, ","), ";")
			}
		}
		return m, nil
	case "locate":
		return &comms.Locate{Req: req, Job: job}, nil
	case "query":
		return &comms.Query{Req: req, Kind: what, Job: job}, nil
	}
	return nil, fmt.Errorf("unknown command %s", d.Cmd)
}

// life is a number of a life of a job: the one given, else that of the last Assign.
func (w *world) life(job comms.JobID, given string) uint64 {
	if given != "" {
		return number(given)
	}
	return w.assigned[job].JobIncarnation
}

// TestEqualInputsEqualActions runs one history twice: the transcripts must not differ.
func TestEqualInputsEqualActions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, f := range files {
		if _, err := os.Stat(f); errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for range 3 {
			play(t, f)
		}
	}
}
