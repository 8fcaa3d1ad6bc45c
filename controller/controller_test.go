package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

func testJob(n byte) comms.JobID { return comms.JobID{0: 1, 15: n} }

func submit(c *peerEnd, n byte, graph []byte) {
	c.say(&comms.Submit{Req: uint64(n), Job: testJob(n), Graph: graph, Tenant: "me", Labels: []string{"a=b"}, Watch: true})
}

func final(c *peerEnd) *comms.Progress {
	c.t.Helper()
	return expect(c, "final progress", func(p *comms.Progress) bool { return p.Final })
}

// rows asks for all pages of a query, so many rows at a time.
func rows[T any](c *peerEnd, q comms.Query, limit uint32) (out []T) {
	c.t.Helper()
	for n := uint64(1000); ; n++ {
		q.Req, q.Limit = n, limit
		c.say(&q)
		p := expect(c, "page", func(p *comms.Page) bool { return p.Req == n })
		if len(p.Rows) > int(limit) {
			c.t.Fatalf("%d rows on a page of %d", len(p.Rows), limit)
		}
		for _, b := range p.Rows {
			var v T
			if err := msgpack.Unmarshal(b, &v); err != nil {
				c.t.Fatal(err)
			}
			out = append(out, v)
		}
		if p.Cursor == nil {
			return out
		}
		q.Cursor = p.Cursor
	}
}

func TestJobFromSubmitToFinal(t *testing.T) {
	c := startCluster(t)
	submit(c, 1, parse(t, job1).Encode())
	if acc := expect[*comms.Accepted](c, "accepted", nil); acc.Job != testJob(1) || acc.Again {
		t.Errorf("accepted %+v", acc)
	}
	p := final(c)
	if p.Phase != comms.JobDone || !p.Result || p.Groups[0].Done != 3 || p.TaskTime != 8e9 || p.Started == 0 || p.Ended == 0 {
		t.Errorf("final %+v", p)
	}
	c.say(&comms.Locate{Req: 2, Job: testJob(1)})
	l := expect[*comms.Located](c, "located", nil)
	if len(l.Data) != 1 || l.Data[0].Name != "b.x" || string(l.Data[0].Desc.Place.Bytes) != "abc" || l.Data[0].Addresses[0] != "inproc://a1" {
		t.Errorf("located %+v", l)
	}
	c.say(&comms.Locate{Req: 3, Job: testJob(1), Names: []string{"a[1]", "b.y"}})
	if l := expect[*comms.Located](c, "located", nil); len(l.Data) != 2 || l.Data[0].Name != "a[1].x" || l.Data[1].Name != "b.y" {
		t.Errorf("located %+v", l)
	}
	c.say(&comms.Locate{Req: 4, Job: testJob(1), Names: []string{"zzz"}})
	if r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == 4 }); r.Code != comms.CodeBadRequest {
		t.Errorf("reply %+v", r)
	}
}

// Of a job that has ended only exports are located: what else it made its agent frees
// when it hears of the end, which may be later than the client does.
func TestLocateAfterTheEnd(t *testing.T) {
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	t.Cleanup(dialAgent(t, net, &fakeAgent{name: "a1", keeps: true}).close)
	c := dialClient(t, net)
	t.Cleanup(c.close)
	submit(c, 1, parse(t, job1).Encode())
	if p := final(c); p.Phase != comms.JobDone {
		t.Fatalf("final %+v", p)
	}
	c.say(&comms.Locate{Req: 2, Job: testJob(1), Names: []string{"b.x"}})
	if l := expect[*comms.Located](c, "located", nil); len(l.Data) != 1 || l.Data[0].Name != "b.x" || l.Data[0].Agent != "a1" {
		t.Errorf("located %+v", l)
	}
	for i, tt := range []struct{ name, want string }{{"b.y", "dataset b.y is not there"}, {"a[1]", "dataset a[1].x is not there"}, {"a", "dataset a[0].x is not there"}} {
		req := uint64(i + 3)
		c.say(&comms.Locate{Req: req, Job: testJob(1), Names: []string{tt.name}})
		r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == req })
		if want := tt.want + ": it is no output of the job, and was freed: "; r.Code != comms.CodeNotFound || !strings.HasPrefix(r.Message, want) {
			t.Errorf("%s: code %d: %s", tt.name, r.Code, r.Message)
		}
	}
}

// What a client sends as one message is answered as if each had come by itself: as
// one where the client reads that, and never to one that does not.
func TestManyAtOnce(t *testing.T) {
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	t.Cleanup(dialAgent(t, net, &fakeAgent{name: "a1"}).close)
	graph := parse(t, job1).Encode()
	for _, features := range [][]string{nil, {comms.FeatureMany}} {
		from := byte(10 + 100*len(features))
		c := dialPeer(t, net, &peerEnd{}, comms.Identity{Role: "client", Name: fmt.Sprint(features), Incarnation: 1, Features: features})
		t.Cleanup(c.close)
		submit(c, from, graph) // from here on the graph is known
		final(c)
		const n = 50
		var b comms.Bunch
		for i := range byte(n) {
			b.Add(&comms.Submit{Req: uint64(from+i) + 1, Job: testJob(from + i + 1), GraphHash: hashOf(graph), Tenant: "me", Watch: true, Every: -1})
		}
		c.say(b.Take())
		accepted, ended, together := map[comms.JobID]bool{}, 0, false
		for ended < n {
			m := expect[comms.Message](c, "answer", nil)
			all := []comms.Message{m}
			if many, ok := m.(*comms.Many); ok {
				together = true
				var err error
				if all, err = many.All(); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range all {
				switch m := m.(type) {
				case *comms.Accepted:
					if m.Job != testJob(byte(m.Req)) || accepted[m.Job] || m.Again {
						t.Errorf("accepted %+v", m)
					}
					accepted[m.Job] = true
				case *comms.Progress:
					if m.Job != testJob(byte(m.Req)) || m.Final && m.Phase != comms.JobDone {
						t.Errorf("progress %+v", m)
					}
					if m.Final {
						ended++
					}
				default:
					t.Errorf("unexpected %T", m)
				}
			}
		}
		if len(accepted) != n || together != (features != nil) {
			t.Errorf("features %v: %d accepted, answers together: %v", features, len(accepted), together)
		}
	}
}

func TestQueries(t *testing.T) {
	c := startCluster(t)
	for n := range byte(3) {
		submit(c, n+1, parse(t, job1).Encode())
		final(c)
	}
	jobs := rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs}, 2)
	if len(jobs) != 3 || jobs[0].ID != testJob(3).String() || jobs[2].Done != 4 || jobs[2].Phase != "done" || jobs[0].Labels[0] != "a=b" {
		t.Errorf("jobs %+v", jobs)
	}
	tasks := rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1)}, 3)
	if len(tasks) != 4 || tasks[1].Name != "a[1]" || tasks[1].State != "done" || tasks[1].Seconds != 2 || tasks[3].Group != "b" || tasks[3].Agent != "a1" {
		t.Errorf("tasks %+v", tasks)
	}
	if tasks := rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1), Filter: "a"}, 2); len(tasks) != 3 {
		t.Errorf("tasks of group a: %+v", tasks)
	}
	if tasks := rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1), Filter: "failed"}, 2); len(tasks) != 0 {
		t.Errorf("failed tasks: %+v", tasks)
	}
	if ds := rows[comms.DatasetRow](c, comms.Query{Kind: comms.QueryDatasets}, 2); len(ds) != 3 || ds[0].Name != "b.x" || ds[0].Place != "store" || ds[0].Size != 3 {
		t.Errorf("datasets %+v", ds)
	}
	if as := rows[comms.AgentRow](c, comms.Query{Kind: comms.QueryAgents}, 2); len(as) != 1 || as[0].Name != "a1" || as[0].State != "ready" || as[0].CPU != 4 || as[0].Version != "1.2.3" {
		t.Errorf("agents %+v", as)
	}
	if es := rows[comms.EnvironmentRow](c, comms.Query{Kind: comms.QueryEnvironments}, 2); len(es) != 3 || es[0].Name != "e" || es[0].State != "ready" {
		t.Errorf("environments %+v", es)
	}
	story := rows[comms.StoryRow](c, comms.Query{Kind: comms.QueryStory, Job: testJob(1), Filter: "a[1]"}, 2)
	if len(story) != 2 || story[0].What != "started" || story[0].Cause != "the job was assigned" || story[1].What != "finished" || story[1].Cause != "the run" ||
		!strings.Contains(story[1].Detail, "a[1].x 3 bytes") {
		t.Errorf("story %+v", story)
	}
	if all := rows[comms.StoryRow](c, comms.Query{Kind: comms.QueryStory, Job: testJob(1)}, 2); len(all) != 10 {
		t.Errorf("whole story: %d rows", len(all))
	}
	plan := rows[comms.PlanRow](c, comms.Query{Kind: comms.QueryPlan, Job: testJob(1)}, 3)
	if len(plan) != 4 || plan[3].Host != "a1" || plan[3].Start != 2 || plan[3].Finish != 4 { // profiles of the runs before
		t.Errorf("plan %+v", plan)
	}
	c.say(&comms.Query{Req: 7, Kind: comms.QueryGraph, Job: testJob(1)})
	if p := expect[*comms.Page](c, "graph", nil); !slices.Equal(p.Rows[0], parse(t, job1).Encode()) {
		t.Error("another graph")
	}
	for _, q := range []comms.Query{{Kind: "nosuch", Job: testJob(1)}, {Kind: comms.QueryTasks}, {Kind: comms.QueryTasks, Job: testJob(9)},
		{Kind: comms.QueryStory, Job: testJob(1), Filter: "zzz"}, {Kind: comms.QueryJobs, Cursor: []byte("x")}} {
		q.Req = 50
		c.say(&q)
		if r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == 50 }); r.Code == comms.CodeOK || r.Message == "" {
			t.Errorf("%+v: %+v", q, r)
		}
	}
}

// TestRestart stops the controller while an agent works, and starts another on the same folder.
// A controller that cannot listen leaves nothing at work on the jobs that it found
// (goleak looks), nor on its store: another one takes it.
func TestStartFails(t *testing.T) {
	net, dir := comms.NewInproc(), t.TempDir()
	first := startController(t, dir, net)
	c := dialClient(t, net)
	for n := range byte(20) {
		submit(c, n, parse(t, job1).Encode())
		expect[*comms.Accepted](c, "accepted", nil)
	}
	c.close()
	first.stop(t)

	for range 5 {
		_, err := New(Config{Address: "inproc://controller,ipc:///proc/none/x.sock", State: dir, Inproc: net, Shards: 2, Memory: 64 << 20, MinFree: 1})
		if err == nil || !strings.Contains(err.Error(), "/proc/none/x.sock") {
			t.Fatal(err)
		}
	}
	startController(t, dir, net)
}

func TestRestart(t *testing.T) {
	net, dir := comms.NewInproc(), t.TempDir()
	first := startController(t, dir, net)
	a := dialAgent(t, net, &fakeAgent{name: "a1", hold: true})
	defer a.close()
	c := dialClient(t, net)
	submit(c, 1, parse(t, job1).Encode())
	expect[*comms.Accepted](c, "accepted", nil)
	expect[*comms.Assign](a.peerEnd, "assignment", nil)
	c.close()
	first.stop(t)

	startController(t, dir, net)
	b := dialAgent(t, net, &fakeAgent{name: "a1", inc: 2}) // the agent was started again, too
	defer b.close()
	c = dialClient(t, net)
	defer c.close()
	c.say(&comms.Watch{Req: 5, Job: testJob(1)})
	if p := final(c); p.Phase != comms.JobDone {
		t.Errorf("final %+v", p)
	}
	// The same submit again is answered as the first.
	c.say(&comms.Submit{Req: 6, Job: testJob(1), Graph: parse(t, job1).Encode()})
	if acc := expect[*comms.Accepted](c, "accepted", nil); !acc.Again {
		t.Errorf("accepted %+v", acc)
	}
	c.say(&comms.Control{Req: 8, Job: testJob(1), Action: comms.SteerRerun, Tasks: []string{"a[1]"}})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 8 })
	c.say(&comms.Watch{Req: 9, Job: testJob(1)})
	final(c)
	tasks := rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1)}, 100)
	var attempts []uint32
	for _, r := range tasks {
		attempts = append(attempts, r.Attempt)
	}
	if base := attempts[0]; !slices.Equal(attempts, []uint32{base, base + 1, base, base + 1}) {
		t.Errorf("attempts %v: only a[1] and b were to run again", attempts)
	}
}

// What is asked about a job that there is not says so in the same words.
func TestUnknownJob(t *testing.T) {
	c := startCluster(t)
	for i, m := range []comms.Message{
		&comms.Query{Req: 1, Kind: comms.QueryTasks, Job: testJob(9)},
		&comms.Query{Req: 2, Kind: comms.QueryStory, Job: testJob(9)},
		&comms.Watch{Req: 3, Job: testJob(9)},
		&comms.Control{Req: 4, Job: testJob(9), Action: comms.SteerCancel},
		&comms.Locate{Req: 5, Job: testJob(9)},
	} {
		c.say(m)
		r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == uint64(i+1) })
		if want := "no job " + testJob(9).String(); r.Code != comms.CodeNotFound || r.Message != want {
			t.Errorf("%T: %+v, want %q", m, r, want)
		}
	}
}

func TestLargeGraphTravelsAsBlob(t *testing.T) {
	var src strings.Builder
	src.WriteString("job: d\nenvironments: {e: {go: ./e}}\ntasks:\n")
	for i := range 2000 {
		fmt.Fprintf(&src, "  t%d: {run: \"e:F\", with: {text: %q}, out: [x]}\n", i, strings.Repeat("x", 800))
	}
	src.WriteString("outputs: [t0.x]\n")
	graph := parse(t, src.String()).Encode()
	if len(graph) < 3<<19 {
		t.Fatalf("the graph has only %d bytes", len(graph))
	}
	c := startCluster(t)
	h := hashOf(graph)
	have := func(want int) {
		t.Helper()
		c.say(&comms.HaveReq{Req: 1, Hashes: []comms.Hash{h, "nonsense"}})
		if m := expect[*comms.Have](c, "have", nil); len(m.Missing) != want {
			t.Fatalf("missing %v", m.Missing)
		}
	}
	have(2)
	c.say(&comms.Submit{Req: 2, Job: testJob(1), GraphHash: h})
	if r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == 2 }); r.Code != comms.CodeNotFound {
		t.Errorf("reply %+v", r)
	}
	for at := 0; at < len(graph); at += 1 << 20 {
		piece := graph[at:min(at+1<<20, len(graph))]
		for range 2 { // a second copy changes nothing
			c.sayBody(&comms.Blob{Hash: h, Offset: uint64(at), Total: uint64(len(graph))}, slices.Clone(piece))
		}
	}
	have(1)
	c.say(&comms.Submit{Req: 3, Job: testJob(1), GraphHash: h, Watch: true})
	if p := final(c); p.Phase != comms.JobDone {
		t.Errorf("final %+v", p)
	}
}

func TestHostilePeers(t *testing.T) {
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	for name, act := range map[string]func(*peerEnd){
		"wrong hash": func(p *peerEnd) {
			p.sayBody(&comms.Blob{Hash: hashOf([]byte("a")), Total: 1}, []byte("b"))
		},
		"blob out of order": func(p *peerEnd) {
			p.sayBody(&comms.Blob{Hash: hashOf([]byte("a")), Total: 10, Offset: 5}, []byte("b"))
		},
		"blob of no hash":    func(p *peerEnd) { p.sayBody(&comms.Blob{Hash: "a", Total: 1}, []byte("b")) },
		"an agent's message": func(p *peerEnd) { p.say(&comms.Register{Agent: "x"}) },
		"no message": func(p *peerEnd) {
			if err := p.linked().Send([]byte{0xc1}, nil); err != nil {
				p.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := dialClient(t, net)
			act(p)
			<-p.down // the controller hung up
			p.close()
		})
	}
	c := dialClient(t, net)
	defer c.close()
	for n, graph := range map[byte][]byte{1: nil, 2: []byte("nonsense")} {
		submit(c, n, graph)
		if r := expect(c, "refusal", func(r *comms.Reply) bool { return r.Req == uint64(n) }); r.Code != comms.CodeBadRequest {
			t.Errorf("graph %q: %+v", graph, r)
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "address"},
		{Config{Address: "inproc://x"}, "state folder is missing"},
		{Config{Address: "inproc://x", State: "s", Name: "a b"}, "controller name"},
		{Config{Address: "inproc://x", State: "s", Shards: 1000}, "shards"},
		{Config{Address: "inproc://x", State: "s", Silence: time.Millisecond}, "a silence of 1ms after which links break: want 1s or more"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
	dir := t.TempDir()
	net := comms.NewInproc()
	startController(t, dir, net)
	_, err := New(Config{Address: "inproc://y", State: dir, Inproc: net, MinFree: 1})
	var locked *gcs.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("second controller on one folder: %v", err)
	}
}

// What tasks cost survives a restart of the controller, and can be replaced by a file.
func TestSetProfiles(t *testing.T) {
	dir := t.TempDir()
	net := comms.NewInproc()
	r := startController(t, dir, net)
	c := dialClient(t, net)
	f := profiles.File{Version: profiles.FileVersion, Profiles: []profiles.Entry{
		{Job: "d", Task: "a", Function: "F", Runs: 7, Seconds: 30, Points: [][3]float64{{1, 2, 3}}, Times: [][2]float64{{36, 7}}, Version: "00000000000000ff"},
		{Function: "F", Runs: 9, Seconds: 31}},
		Links: []profiles.LinkEntry{{From: "a", To: "b", Flows: 5, Rate: 1e8, At: 7}, {To: "b", Flows: 1, Rate: 2e8}}}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c.say(&comms.SetProfiles{Req: 3, File: b})
	expect(c, "done", func(r *comms.Reply) bool { return r.Req == 3 && r.Code == comms.CodeOK })
	c.say(&comms.SetProfiles{Req: 4, File: []byte("{}")})
	expect(c, "refused", func(r *comms.Reply) bool { return r.Req == 4 && r.Code == comms.CodeBadRequest })
	c.close()
	r.stop(t)

	startController(t, dir, net)
	c = dialClient(t, net)
	defer c.close()
	for filter, want := range map[string]int{"": 2, "d": 1, "F": 2, "other": 0} {
		if got := rows[comms.ProfileRow](c, comms.Query{Kind: comms.QueryProfiles, Filter: filter}, 1); len(got) != want {
			t.Errorf("of %q: %v", filter, got)
		}
	}
	for filter, want := range map[string]int{"": 2, "a": 1, "b": 2, "other": 0} {
		if got := rows[comms.LinkRow](c, comms.Query{Kind: comms.QueryLinks, Filter: filter}, 1); len(got) != want {
			t.Errorf("links of %q: %v", filter, got)
		}
	}
	var l profiles.LinkEntry
	if row := rows[comms.LinkRow](c, comms.Query{Kind: comms.QueryLinks, Filter: "a"}, 1)[0]; json.Unmarshal([]byte(row.Entry), &l) != nil ||
		l.From != "a" || l.Flows != 5 || l.Rate != 1e8 || l.At != 7 || l.Bandwidth == 0 {
		t.Errorf("%s", row.Entry)
	}
	got := rows[comms.ProfileRow](c, comms.Query{Kind: comms.QueryProfiles, Filter: "a"}, 1)
	var e profiles.Entry
	if err := json.Unmarshal([]byte(got[0].Entry), &e); err != nil || e.Runs != 7 || e.Seconds != 30 || len(e.Points) != 1 || e.Version != "00000000000000ff" || e.Quantiles == nil {
		t.Errorf("%s, %v", got[0].Entry, err)
	}
}

// An entry that cannot be written ends its page: what comes behind it does not hide that.
func TestPageWithBadEntry(t *testing.T) {
	p, err := newPager(&comms.Query{Kind: comms.QueryLinks})
	if err != nil {
		t.Fatal(err)
	}
	row := func(entry string) any { return &comms.LinkRow{Entry: entry} }
	for _, rate := range []float64{1, math.NaN(), 2} {
		if !p.addEntry(func() any { return profiles.LinkEntry{Rate: rate} }, row) {
			break
		}
	}
	if p.err == nil || len(p.page.Rows) != 1 {
		t.Errorf("%d rows, error %v; want the first row and an error", len(p.page.Rows), p.err)
	}
}

// An agent whose link is broken is away and was seen last when it broke, also while
// the link may come back and the agent's jobs wait for it.
func TestAgentWithBrokenLink(t *testing.T) {
	net := comms.NewInproc()
	r := startController(t, t.TempDir(), net)
	agent := dialAgent(t, net, &fakeAgent{name: "a1"})
	c := dialClient(t, net)
	t.Cleanup(c.close)
	until := func(state string) comms.AgentRow {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if all := rows[comms.AgentRow](c, comms.Query{Kind: comms.QueryAgents}, 10); len(all) == 1 && all[0].State == state {
				return all[0]
			}
		}
		t.Fatalf("the agent never is %s", state)
		return comms.AgentRow{}
	}
	until("ready")
	agent.linked().Abort(errors.New("the cable is out"))
	row := until("away")
	if row.Version != "1.2.3" {
		t.Errorf("its version is %q, want that of the program that was heard last", row.Version)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.broken) != 1 {
		t.Fatalf("%d broken links: the agent was given up", len(r.broken))
	}
	for _, since := range r.broken {
		if seen, err := time.Parse(time.RFC3339Nano, row.Seen); err != nil || seen.After(since) {
			t.Errorf("seen %s (%v), the link broke at %s", row.Seen, err, since)
		}
	}
}

// Sessions are found among jobs by their graphs: the name of another job may begin as theirs do.
func TestListSessions(t *testing.T) {
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	c := dialClient(t, net)
	for i, name := range []string{"session one", "session two"} {
		g, err := dag.NewSession(name, "nobody", "")
		if err != nil {
			t.Fatal(err)
		}
		c.say(&comms.Submit{Req: uint64(i + 1), Job: testJob(byte(i + 1)), Graph: g.Encode()})
		expect[*comms.Accepted](c, "accepted", nil)
	}
	c.say(&comms.Submit{Req: 3, Job: testJob(3), Graph: parse(t, "job: session three\ntasks:\n  a: {command: \"true\"}\n").Encode()})
	expect[*comms.Accepted](c, "accepted", nil)
	c.say(&comms.Control{Req: 4, Job: testJob(1), Action: comms.SteerCancel})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 4 })
	for filter, want := range map[string][]string{comms.FilterSessions: {"session two", "session one"}, comms.FilterOpenSessions: {"session two"}, comms.FilterOpen: {"session three", "session two"}} {
		var got []string
		for _, row := range rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs, Filter: filter}, 1) {
			got = append(got, row.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s are %q, want %q", filter, got, want)
		}
	}
	c.close()
}

// The tasks of a job that is cancelled before any agent has it are cancelled, and
// none was tried; while it waits the list of jobs says for what.
func TestCancelQueued(t *testing.T) {
	net := comms.NewInproc()
	r := startController(t, t.TempDir(), net)
	c := dialClient(t, net)
	c.say(&comms.Submit{Req: 1, Job: testJob(1), Graph: parse(t, job1).Encode()})
	expect[*comms.Accepted](c, "accepted", nil)
	if jobs := rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs, Filter: comms.FilterOpen}, 10); len(jobs) != 1 || jobs[0].Waits != "no agent has joined the controller" {
		t.Errorf("jobs %+v", jobs)
	}
	c.say(&comms.Control{Req: 2, Job: testJob(1), Action: comms.SteerCancel, Reason: "not today"})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 2 })
	c.say(&comms.Watch{Req: 3, Job: testJob(1)})
	if p := final(c); p.Phase != comms.JobCancelled || p.Groups[0].Cancelled != 3 || p.Groups[1].Cancelled != 1 {
		t.Errorf("final %+v", p)
	}
	see := func() {
		t.Helper()
		for _, row := range rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1)}, 3) {
			if row.State != "cancelled" || row.Attempt != 0 {
				t.Errorf("task %+v", row)
			}
		}
		for task, want := range map[string]string{"": "a[0] to b", "a[1]": "a[1]"} {
			story := rows[comms.StoryRow](c, comms.Query{Kind: comms.QueryStory, Job: testJob(1), Filter: task}, 10)
			if len(story) != 1 || story[0].What != "cancelled" || story[0].Cause != "not today" || story[0].Task != want {
				t.Errorf("story of %q: %+v", task, story)
			}
		}
		if jobs := rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs, Filter: "cancelled"}, 10); len(jobs) != 1 || jobs[0].Waits != "" {
			t.Errorf("jobs %+v", jobs)
		}
		if jobs := rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs, Filter: comms.FilterOpen}, 10); len(jobs) != 0 {
			t.Errorf("open are %+v", jobs)
		}
	}
	see()
	c.close()
	dir := r.cfg.State
	r.stop(t)
	startController(t, dir, net) // the same of what was stored
	c = dialClient(t, net)
	t.Cleanup(c.close)
	see()
}
