package ui

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

const token = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// at is the time in tests.
var at = time.Date(2026, 11, 25, 4, 57, 12, 0, time.UTC)

// fake is a cluster with one job.
type fake struct {
	graph    *dag.Graph
	tasks    []comms.TaskRow
	plan     []comms.PlanRow
	jobs     []comms.JobRow
	hosts    []comms.AgentRow
	calls    []comms.CallRow
	sessions []comms.JobRow
	refs     []comms.ReferenceRow
	absent   []string
	uses     []comms.UseRow
	story    []comms.StoryRow
	data     []comms.DatasetRow
	progress comms.Progress
	log      []byte
	refuse   error // of actions
	broken   error // of questions

	mu      sync.Mutex
	watches int // now
	most    int // watches at a time
	did     []string
	queries []comms.Query
}

func page[T any](rows []T) (*comms.Page, error) {
	p := &comms.Page{}
	for i := range rows {
		b, err := msgpack.Marshal(&rows[i])
		if err != nil {
			return nil, err
		}
		p.Rows = append(p.Rows, b)
	}
	return p, nil
}

func (f *fake) Query(_ context.Context, q comms.Query) (*comms.Page, error) {
	f.mu.Lock()
	f.queries = append(f.queries, q)
	f.mu.Unlock()
	if f.broken != nil {
		return nil, f.broken
	}
	if !q.Job.IsZero() && q.Job != f.progress.Job {
		return nil, fmt.Errorf("%w: no job %s", cascade.ErrNotFound, q.Job)
	}
	switch q.Kind {
	case comms.QueryJobs:
		switch q.Filter {
		case comms.FilterSessions:
			return page(f.sessions)
		case comms.FilterOpenSessions:
			return page(f.sessions[:1])
		}
		return page(f.jobs)
	case comms.QueryAgents:
		return page(f.hosts)
	case comms.QueryUse:
		return page(f.uses)
	case comms.QueryCalls:
		return f.callsPage(q)
	case comms.QueryPlan:
		return page(f.plan)
	case comms.QueryStory:
		return page(f.story)
	case comms.QueryDatasets:
		return page(f.data)
	case comms.QueryGraph:
		return &comms.Page{Rows: [][]byte{f.graph.Encode()}}, nil
	case comms.QueryTasks:
		var rows []comms.TaskRow
		for _, r := range f.tasks {
			if (q.Filter == "" || r.Name == q.Filter || r.Group == q.Filter || r.State == q.Filter) && (q.Limit == 0 || len(rows) < int(q.Limit)) {
				rows = append(rows, r)
			}
		}
		return page(rows)
	}
	return &comms.Page{}, nil
}

// callsPage is a page of called tasks; its cursor is a number of rows.
func (f *fake) callsPage(q comms.Query) (*comms.Page, error) {
	var from uint64
	if len(q.Cursor) > 0 {
		from = binary.BigEndian.Uint64(q.Cursor)
	}
	rest := f.calls[from:]
	n := min(len(rest), int(q.Limit))
	p, err := page(rest[:n])
	if err == nil && n < len(rest) {
		p.Cursor = binary.BigEndian.AppendUint64(nil, from+uint64(n))
	}
	return p, err
}

func (f *fake) References(_ context.Context, job comms.JobID, yield func(*comms.ReferenceRow)) ([]string, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	for i := range f.refs {
		if job.IsZero() || f.refs[i].Job == job.String() {
			yield(&f.refs[i])
		}
	}
	return f.absent, nil
}

func (f *fake) Watch(ctx context.Context, job comms.JobID, _ time.Duration, yield func(*comms.Progress) bool) error {
	if f.broken != nil {
		return f.broken
	}
	if job != f.progress.Job {
		return fmt.Errorf("%w: no job %s", cascade.ErrNotFound, job)
	}
	f.mu.Lock()
	f.watches++
	f.most = max(f.most, f.watches)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.watches--
		f.mu.Unlock()
	}()
	p := f.progress
	if !yield(&p) || p.Final {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Log(_ context.Context, _ comms.JobID, _ string, offset, most uint64) ([]byte, uint64, error) {
	total := uint64(len(f.log))
	return f.log[min(offset, total):min(offset+most, total)], total, nil
}

func (f *fake) Control(_ context.Context, c comms.Control) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.did = append(f.did, fmt.Sprintf("%d %v %q", c.Action, c.Tasks, c.Reason))
	return nil
}

func (f *fake) Drain(_ context.Context, host, reason string) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.did = append(f.did, fmt.Sprintf("drain %s %q", host, reason))
	return nil
}

// night is a forecast of which one member takes too long, while another failed. Text in it is hostile.
const night = `
job: fc
tasks:
  obs: {for: {i: 0..1}, out: [o], stdout: o, command: "true"}
  model: {for: {m: 0..2}, in: {o: "obs[*].o"}, out: [f], stdout: f, keep_going: true, command: "true ${in.o[*]}"}
  products: {in: {f: {from: "model[*].f", min: 1}}, out: [maps], stdout: maps, deadline: 2h, command: "true ${in.f[*]}"}
outputs: [products.maps]
`

const evil = "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202efdp.exe"

func newFake(t *testing.T) *fake {
	t.Helper()
	g, err := dag.ParseYAML("night.yaml", []byte(night), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := comms.ParseJobID("01a21cb6-b173-7407-866c-911bbcf3f4e0")
	if err != nil {
		t.Fatal(err)
	}
	began := at.Add(-2*time.Hour - 30*time.Minute)
	f := &fake{graph: g}
	f.progress = comms.Progress{Job: id, Name: "fc", Phase: comms.JobRunning, Started: began.UnixNano(), BytesOut: 3 << 20, TaskTime: int64(3 * time.Hour), Late: "products is predicted to end 20 min after its deadline"}
	f.jobs = []comms.JobRow{{ID: id.String(), Name: "fc " + evil, Phase: "running", Tenant: "anna", Tasks: 6, Done: 3, Failed: 1, Submitted: began.Format(time.RFC3339Nano)}}
	f.hosts = []comms.AgentRow{{Name: "node7", State: "ready", Platform: "linux/amd64", CPU: 8, Memory: 64 << 30, Running: 1, Jobs: 1, Seen: at.Format(time.RFC3339Nano)}}
	for i := range g.NumTasks() {
		k := dag.TaskIndex(i)
		r := comms.TaskRow{Name: g.TaskName(k), Index: uint32(i), Group: g.Group(k).Name, State: "done", Attempt: 1, Agent: "node7", BytesOut: 1 << 20}
		p := comms.PlanRow{Task: r.Name, Host: "node7", Reason: "starts at once"}
		switch r.Group {
		case "obs":
			r.Started, r.Seconds = began.Format(time.RFC3339Nano), 600
			p.Start, p.Finish, p.Rank = 0, 600, 5100
		case "model":
			r.Started, r.Seconds = began.Add(10*time.Minute).Format(time.RFC3339Nano), 3600
			p.Start, p.Finish, p.Rank = 600, 4200, 4500
		case "products":
			r.State, r.Attempt, r.Agent, r.BytesOut = "waiting", 0, "", 0
			p.Start, p.Finish, p.Rank = 4200, 5100, 900
		}
		switch r.Name {
		case "model[1]":
			r.State, r.Error, r.LogTail, r.BytesOut = "failed", "exit: status 3 of "+evil, "line\n"+evil, 0
		case "model[2]":
			r.State, r.Seconds, r.BytesOut = "running", 0, 0
		}
		f.tasks, f.plan = append(f.tasks, r), append(f.plan, p)
	}
	for k := range g.Groups {
		c := comms.GroupCounts{Group: g.Groups[k].Name}
		for _, r := range f.tasks {
			if r.Group != c.Group {
				continue
			}
			c.Total++
			switch r.State {
			case "done":
				c.Done++
			case "failed":
				c.Failed++
			case "running":
				c.Running++
			}
		}
		f.progress.Groups = append(f.progress.Groups, c)
	}
	f.story = []comms.StoryRow{{At: began.Format(time.RFC3339Nano), Task: "model[2]", Attempt: 1, What: "started", Cause: "obs[1].o was published", Agent: "node7", Detail: evil}}
	f.data = []comms.DatasetRow{{Name: "model[0].f", Codec: "bytes", Size: 1 << 20, Place: "shared memory", Agent: "node7"}}
	f.calls = []comms.CallRow{{Name: "products/1", Task: "products", Function: "fit", State: "failed", Tries: 2, Agent: "node7", Called: began.Format(time.RFC3339Nano), Started: began.Add(time.Second).Format(time.RFC3339Nano), Ended: began.Add(3 * time.Second).Format(time.RFC3339Nano), Seconds: 2, Error: evil}}
	work := comms.JobRow{ID: id.String(), Name: "session work " + evil, Phase: "running", Tenant: "anna", Tasks: 1, Submitted: began.Format(time.RFC3339Nano)}
	over := comms.JobRow{ID: "01a21cb6-0000-7000-8000-000000000001", Name: "session notebook", Phase: "done", Tasks: 1, Done: 1, Submitted: began.Add(-time.Hour).Format(time.RFC3339Nano), Ended: began.Format(time.RFC3339Nano)}
	f.sessions = []comms.JobRow{work, over}
	ref := comms.ReferenceRow{Kind: "call", Function: "fit", Job: id.String(), Owner: "session work " + evil, Agent: "node7", State: "running", Holders: "parent", Parent: true, Age: 90}
	f.refs = []comms.ReferenceRow{ref, ref, ref, ref, ref}
	for i := range f.refs {
		f.refs[i].Name = fmt.Sprintf("root/%d", i)
	}
	f.refs[1].State = "waiting"
	f.refs[2].State = "away" // it runs at node8
	f.refs[3].Agent, f.refs[3].Name, f.refs[3].Owner, f.refs[3].Holders = "node8", "root/2", "agent node7", "its owner"
	f.refs[4].Kind, f.refs[4].Function, f.refs[4].State, f.refs[4].Datasets, f.refs[4].Size, f.refs[4].Shm, f.refs[4].Place, f.refs[4].Holders = "value", "", "done", 1, 3<<20, 3<<20, "shm", "parent, 2 values"
	f.hosts[0].Use = &comms.HostUse{At: at.Format(time.RFC3339), Cores: 8, Busy: 6.2, Total: 64 << 30, Memory: 20 << 30}
	f.uses = []comms.UseRow{{Agent: "node7", Cores: 8, Total: 64 << 30, At: []int64{at.Unix() - 20, at.Unix() - 10, at.Unix()}, Busy: []float64{0.5, 7, 6.2}, Memory: []uint64{10 << 30, 15 << 30, 20 << 30}}}
	f.absent = []string{"host node9 is away"}
	f.log = []byte(evil + "\n")
	return f
}

// serve starts the page on a fake.
func serve(t *testing.T, f *fake, change func(*Config)) *httptest.Server {
	t.Helper()
	cfg := Config{Source: f, Token: token, Hosts: []string{"127.0.0.1"}, Cluster: "hpc", User: "anna", Role: "submit", Flags: []string{"--to", "hpc"}, Version: "v0", Now: func() time.Time { return at }}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		h.end()
		s.Close()
		h.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// request asks; edit changes the request.
func request(t *testing.T, s *httptest.Server, method, path, body string, edit func(*http.Request)) (status int, head http.Header, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if edit != nil {
		edit(r)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(b)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(got), "", "  "); err != nil {
		t.Fatalf("%s: %v: %s", name, err, got)
	}
	b.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%s differs (go test ./internal/ui -update writes it):\n%s", file, b.String())
	}
}
