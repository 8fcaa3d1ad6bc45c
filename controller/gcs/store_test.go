package gcs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// small keeps a test's memory and files small.
func small(dir string) Options {
	return Options{Dir: dir, Shards: 2, memTable: 8 << 20, MinFree: 1, Reserve: 1 << 20}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func jobID(n uint64) (j comms.JobID) {
	binary.BigEndian.PutUint64(j[8:], n)
	return j
}

// wait turns a call with a completion into one that waits for it.
func wait(f func(done func(error))) error {
	c := make(chan error, 1)
	f(func(err error) { c <- err })
	return <-c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, s *Store, job comms.JobID, graph []byte) {
	t.Helper()
	row := &records.Job{ID: job, Name: "n", Phase: comms.JobQueued}
	must(t, wait(func(d func(error)) {
		s.Create(row, &comms.Submit{Job: job, Tenant: "me", Graph: []byte("dropped")}, graph, d)
	}))
}

func finished(tasks ...dag.TaskIndex) (es []comms.Event) {
	for _, i := range tasks {
		es = append(es, comms.Event{Kind: comms.EventFinished, Task: i, Attempt: 1})
	}
	return es
}

func TestJobSurvivesReopen(t *testing.T) {
	for _, size := range []int{0, 10, chunkSize - 200, chunkSize, 3*chunkSize + 5} {
		dir := t.TempDir()
		job, graph := jobID(7), []byte(strings.Repeat("g", size))
		s, err := Open(small(dir))
		must(t, err)
		create(t, s, job, graph)
		c := records.Commit{Job: job, Row: &records.Job{ID: job, Phase: comms.JobRunning},
			Batch: &records.Batch{Agent: "a", Incarnation: 3, Epoch: 2, First: 5, Events: finished(1, 2),
				Reset: []comms.Range{{First: 4, Last: 9}}, Why: "because"},
			Tasks:    []records.Task{{Task: 3, Error: comms.TaskError{Message: "no"}}},
			Datasets: []records.Dataset{{Agent: "a", Desc: comms.Desc{Ref: comms.DatasetRef{Task: 1, Element: 2}, Size: 11}}},
			Agent:    "a", Seen: records.Seen{Incarnation: 3, UpTo: 6}}
		must(t, wait(func(d func(error)) { s.Commit(c, d) }))
		must(t, s.Close())

		s = open(t, small(dir))
		d, err := s.Load(job)
		must(t, err)
		if string(d.Graph) != string(graph) || d.Row.Phase != comms.JobRunning || d.Request.Tenant != "me" || d.Request.Graph != nil {
			t.Errorf("size %d: loaded %+v, graph of %d bytes", size, d.Row, len(d.Graph))
		}
		if want := (records.Seen{Incarnation: 3, UpTo: 6}); d.Seen["a"] != want {
			t.Errorf("seen %+v, want %+v", d.Seen["a"], want)
		}
		for b, err := range s.Batches(job) {
			must(t, err)
			if len(b.Events) != 2 || b.Events[1].Task != 2 || b.First != 5 || b.Reset[0].Last != 9 || b.Why != "because" || b.Epoch != 2 {
				t.Errorf("batch %+v", b)
			}
		}
		ds, err := s.Datasets(job)
		must(t, err)
		ts, err := s.Tasks(job)
		must(t, err)
		if len(ds) != 1 || ds[0].Desc.Size != 11 || len(ts) != 1 || ts[0].Error.Message != "no" {
			t.Errorf("datasets %+v, tasks %+v", ds, ts)
		}
	}
}

func TestLargeBatchIsSplitAndRepeatable(t *testing.T) {
	s := open(t, small(t.TempDir()))
	job := jobID(1)
	create(t, s, job, []byte("g"))
	var es []comms.Event
	var failed []records.Task
	for i := range dag.TaskIndex(300) {
		es = append(es, comms.Event{Kind: comms.EventFailed, Task: i, Error: &comms.TaskError{LogTail: make([]byte, 10_000)}})
		failed = append(failed, records.Task{Task: uint32(i), Error: *es[i].Error})
	}
	c := records.Commit{Job: job, Batch: &records.Batch{Number: 4, First: 100, Events: es}, Tasks: failed, Agent: "a", Seen: records.Seen{UpTo: 399}}
	for range 2 { // the second copy of the batch changes nothing
		must(t, wait(func(d func(error)) { s.Commit(c, d) }))
		next := uint64(100)
		for b, err := range s.Batches(job) {
			must(t, err)
			if b.First != next || b.Number != 4 {
				t.Fatalf("part begins at %d of batch %d, want %d of 4", b.First, b.Number, next)
			}
			next += uint64(len(b.Events))
		}
		if next != 400 {
			t.Fatalf("events up to %d, want 400", next)
		}
	}
	ts, err := s.Tasks(job)
	must(t, err)
	d, err := s.Load(job)
	must(t, err)
	if len(ts) != 300 || d.Seen["a"].UpTo != 399 {
		t.Errorf("%d task rows, seen %+v", len(ts), d.Seen)
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	s := open(t, small(t.TempDir()))
	for n := range uint64(20) {
		create(t, s, jobID(n), []byte("graph"))
		must(t, wait(func(d func(error)) {
			s.Commit(records.Commit{Job: jobID(n), Batch: &records.Batch{Events: finished(1)}}, d)
		}))
	}
	must(t, wait(func(d func(error)) { s.Delete(jobID(5), d) }))
	n := 0
	for row, err := range s.Jobs() {
		must(t, err)
		if n++; row.ID == jobID(5) {
			t.Error("the row of a deleted job is there")
		}
	}
	if n != 19 {
		t.Errorf("%d jobs left, want 19", n)
	}
	keys, _, err := s.of(jobID(5)).keysOf(jobID(5))
	must(t, err)
	if len(keys) != 0 {
		t.Errorf("keys left: %q", keys)
	}
	if _, err := s.Job(jobID(5)); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	must(t, s.Compact(time.Second))
}

// A commit has as many records as the job has exports, however many that is: a
// transaction of the store has not.
func TestManyRecordsInOneCommit(t *testing.T) {
	s := open(t, small(t.TempDir()))
	create(t, s, jobID(1), []byte("graph"))
	const n = 50_000
	var rows []records.Dataset
	var refs []comms.DatasetRef
	for i := range dag.TaskIndex(n) {
		ref := comms.DatasetRef{Task: i}
		rows, refs = append(rows, records.Dataset{Desc: comms.Desc{Ref: ref}}), append(refs, ref)
	}
	for _, test := range []struct {
		commit records.Commit
		want   int
	}{{records.Commit{Job: jobID(1), Datasets: rows}, n}, {records.Commit{Job: jobID(1), Drop: refs}, 0}} {
		must(t, wait(func(d func(error)) { s.Commit(test.commit, d) }))
		left, err := s.Datasets(jobID(1))
		must(t, err)
		if len(left) != test.want {
			t.Errorf("%d datasets are stored, want %d", len(left), test.want)
		}
	}
}

// A change of the job that is on its way when it is deleted does not outlive it.
func TestDeleteFollowsCommits(t *testing.T) {
	s := open(t, small(t.TempDir()))
	create(t, s, jobID(1), []byte("graph"))
	for n := range uint64(100) {
		s.Commit(records.Commit{Job: jobID(1), Batch: &records.Batch{Number: n, Events: finished(1)}}, func(error) {})
	}
	must(t, wait(func(d func(error)) { s.Delete(jobID(1), d) }))
	keys, _, err := s.of(jobID(1)).keysOf(jobID(1))
	must(t, err)
	if len(keys) != 0 {
		t.Errorf("%d keys left", len(keys))
	}
}

func TestSweepRemovesGraphWithoutJob(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(small(dir))
	must(t, err)
	create(t, s, jobID(1), []byte("whole"))
	must(t, wait(func(d func(error)) {
		s.of(jobID(2)).submit(write{job: jobID(2), entries: []entry{{chunkKey("half", 0), []byte("half")}}, done: d})
	}))
	must(t, s.Close())
	s = open(t, small(dir))
	if _, err := s.Graph(jobID(2)); !errors.Is(err, ErrNotFound) {
		t.Errorf("orphan: got %v, want ErrNotFound", err)
	}
	if g, err := s.Graph(jobID(1)); err != nil || string(g) != "whole" {
		t.Errorf("got %q, %v", g, err)
	}
}

func TestLockedByOther(t *testing.T) {
	o := small(t.TempDir())
	open(t, o)
	_, err := Open(o)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("got %v, want LockedError with this process", err)
	}
}

func TestSchema(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(small(dir))
	must(t, err)
	must(t, s.Close())
	set := func(v uint32) {
		db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "shard-000")).WithLogger(nil))
		must(t, err)
		must(t, writeSchema(db, nameKey(tableMeta, "schema"), v))
		must(t, db.Close())
	}
	set(SchemaVersion + 1)
	var newer *SchemaError
	if _, err := Open(small(dir)); !errors.As(err, &newer) || newer.Found != SchemaVersion+1 {
		t.Fatalf("got %v, want SchemaError", err)
	}
	set(0)
	if _, err := Open(small(dir)); err == nil || !strings.Contains(err.Error(), "no migration") {
		t.Fatalf("got %v, want: no migration", err)
	}
	migrated := false
	o := small(dir)
	o.migrations = migrations()
	o.migrations[0] = func(*badger.DB) error { migrated = true; return nil }
	s, err = Open(o)
	must(t, err)
	must(t, s.Close())
	if !migrated {
		t.Error("the migration did not run")
	}
	for v := uint32(1); v < SchemaVersion; v++ { // each version before is read, and is of this one then
		set(v)
		s, err := Open(small(dir))
		must(t, err)
		must(t, s.Close())
		db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "shard-000")).WithLogger(nil))
		must(t, err)
		got, err := get(db, nameKey(tableMeta, "schema"))
		must(t, err)
		must(t, db.Close())
		if now := binary.BigEndian.Uint32(got); now != SchemaVersion {
			t.Errorf("a store of version %d is of version %d when it was opened, want %d", v, now, SchemaVersion)
		}
	}
}

func TestShardMapIsKept(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(small(dir))
	must(t, err)
	create(t, s, jobID(9), []byte("g"))
	must(t, s.Close())
	o := small(dir)
	o.Shards = 5
	s = open(t, o)
	if m := s.Map(); m.Shards != 2 || m.Version != 1 {
		t.Errorf("map %d shards version %d, want the stored one", m.Shards, m.Version)
	}
	if _, err := s.Job(jobID(9)); err != nil {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 40)
	o := small(t.TempDir())
	o.MinFree, o.poll = 100, time.Millisecond
	o.freeBytes = func(string) (uint64, error) { return free.Load(), nil }
	pauses := make(chan bool, 4)
	o.OnPause = func(p bool, _ uint64) { pauses <- p }
	s := open(t, o)
	create(t, s, jobID(1), []byte("g"))
	reserve := filepath.Join(o.Dir, "reserve")
	if st, err := os.Stat(reserve); err != nil || st.Size() != 1<<20 {
		t.Fatalf("reserve file: %v", err)
	}
	free.Store(99)
	err := wait(func(d func(error)) { s.Create(&records.Job{ID: jobID(2)}, &comms.Submit{}, []byte("g"), d) })
	if !errors.Is(err, ErrNoSpace) {
		t.Fatalf("submit: got %v, want ErrNoSpace", err)
	}
	done := make(chan error, 1)
	s.Commit(records.Commit{Job: jobID(1), Batch: &records.Batch{Events: finished(1)}}, func(err error) { done <- err })
	if !<-pauses {
		t.Fatal("want a pause")
	}
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is held during the pause: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("commit ended during the pause: %v", err)
	default:
	}
	err = wait(func(d func(error)) { s.Create(&records.Job{ID: jobID(1)}, &comms.Submit{}, []byte("g"), d) })
	if !errors.Is(err, ErrNoSpace) {
		t.Fatalf("submit to a shard that waits: got %v, want ErrNoSpace", err)
	}
	free.Store(1 << 40)
	must(t, <-done)
	if <-pauses {
		t.Fatal("want the end of the pause")
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("the reserve is not back: %v", err)
	}
}

// A store whose disk is full can still be read, and little be written, as to forget a
// job: the reserve is given back for that.
func TestBriefOnFullDisk(t *testing.T) {
	o := small(t.TempDir())
	s, err := Open(o)
	must(t, err)
	create(t, s, jobID(1), []byte("g"))
	must(t, s.Close())

	reserve := filepath.Join(o.Dir, "reserve")
	o.MinFree, o.freeBytes = 100, func(string) (uint64, error) {
		if _, err := os.Stat(reserve); err == nil {
			return 0, nil
		}
		return o.Reserve, nil
	}
	if _, err := Open(o); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("a store for work: got %v, want ErrNoSpace", err)
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Fatalf("the reserve was given back for nothing: %v", err)
	}
	o.Brief = true
	s = open(t, o)
	if _, err := s.Job(jobID(1)); err != nil {
		t.Error(err)
	}
	must(t, wait(func(d func(error)) { s.Commit(records.Commit{Job: jobID(1), Row: &records.Job{ID: jobID(1)}}, d) }))
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is held: %v", err)
	}
}

func TestCloseEndsPause(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 40)
	o := small(t.TempDir())
	paused := make(chan bool, 4)
	o.MinFree, o.OnPause = 100, func(p bool, _ uint64) { paused <- p }
	o.freeBytes = func(string) (uint64, error) { return free.Load(), nil }
	s, err := Open(o)
	must(t, err)
	free.Store(0)
	done := make(chan error, 1)
	s.Commit(records.Commit{Job: jobID(1), Row: &records.Job{}}, func(err error) { done <- err })
	<-paused
	must(t, s.Close())
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if err := wait(func(d func(error)) { s.Commit(records.Commit{Job: jobID(1), Row: &records.Job{}}, d) }); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: got %v, want ErrClosed", err)
	}
}

func TestWatch(t *testing.T) {
	s := open(t, small(t.TempDir()))
	all, one := s.Watch(comms.JobID{}, 10), s.Watch(jobID(2), 1)
	create(t, s, jobID(1), []byte("g"))
	create(t, s, jobID(2), []byte("g"))
	if c := <-all.C; c.Job != jobID(1) {
		t.Errorf("first change %+v", c)
	}
	if c := <-one.C; c.Job != jobID(2) {
		t.Errorf("change %+v", c)
	}
	for range 2 {
		must(t, wait(func(d func(error)) { s.Commit(records.Commit{Job: jobID(2), Row: &records.Job{ID: jobID(2)}}, d) }))
	}
	<-one.C
	if _, ok := <-one.C; ok || !one.Missed() {
		t.Error("a watcher that falls behind must be told")
	}
	all.Close()
	all.Close()
}

func TestMetaRows(t *testing.T) {
	s := open(t, small(t.TempDir()))
	must(t, wait(func(d func(error)) { s.PutAgent(&records.Agent{Name: "b", Addresses: []string{"x"}}, d) }))
	must(t, wait(func(d func(error)) { s.PutAgent(&records.Agent{Name: "a"}, d) }))
	as, err := s.Agents()
	must(t, err)
	if len(as) != 2 || as[0].Name != "a" || as[1].Addresses[0] != "x" {
		t.Errorf("agents %+v", as)
	}
	must(t, wait(func(d func(error)) { s.PutProfiles(map[string][]byte{"f": {1, 2}}, d) }))
	n := 0
	must(t, s.Profiles(func(sig string, b []byte) error {
		if n++; sig != "f" || len(b) != 2 {
			t.Errorf("profile %q %v", sig, b)
		}
		return nil
	}))
	if n != 1 {
		t.Errorf("%d profiles", n)
	}
	must(t, wait(func(d func(error)) { s.PutLinks(map[string][]byte{"a b": {1}, "b a": {2}}, d) }))
	must(t, wait(func(d func(error)) { s.PutLinks(map[string][]byte{"a b": nil}, d) }))
	links := map[string][]byte{}
	must(t, s.Links(func(pair string, b []byte) error { links[pair] = slices.Clone(b); return nil }))
	if len(links) != 1 || !bytes.Equal(links["b a"], []byte{2}) {
		t.Errorf("links %v", links)
	}
	must(t, wait(func(d func(error)) { s.Barrier(jobID(1), d) }))
}

// The disk is asked seldom while it has plenty of room, and each time when it has not.
func TestGauge(t *testing.T) {
	now, free, asked := time.Unix(0, 0), uint64(0), 0
	g := gauge{plenty: 1000, now: func() time.Time { return now },
		ask: func(string) (uint64, error) { asked++; return free, nil }}
	for _, step := range []struct {
		after time.Duration
		free  uint64
		want  uint64
		asked int
	}{
		{0, 5000, 5000, 1},
		{gaugeAge - 1, 999, 5000, 1}, // the answer still holds
		{1, 999, 999, 2},
		{0, 998, 998, 3}, // no more than the limit: each time
		{0, 1000, 1000, 4},
		{0, 10, 1000, 4},
		{gaugeAge, 10, 10, 5},
	} {
		now, free = now.Add(step.after), step.free
		if got, err := g.freeBytes(""); err != nil || got != step.want || asked != step.asked {
			t.Errorf("%+v: got %d after %d questions, %v", step, got, asked, err)
		}
	}
}

// Memtables that an end without Close left behind are read by a store with less memory.
func TestLessMemory(t *testing.T) {
	o := small(t.TempDir())
	o.Shards, o.memTable = 1, 16<<20
	s := open(t, o)
	job := jobID(1)
	create(t, s, job, []byte("g"))
	datasets := make([]records.Dataset, 20_000) // 4 MB in memtables
	for i := range datasets {
		ref := comms.DatasetRef{Task: dag.TaskIndex(i)}
		datasets[i] = records.Dataset{Desc: comms.Desc{Ref: ref, Codec: strings.Repeat("c", 200)}}
	}
	must(t, wait(func(d func(error)) { s.Commit(records.Commit{Job: job, Datasets: datasets}, d) }))
	left := small(t.TempDir()) // as a killed process leaves it
	must(t, os.CopyFS(left.Dir+"/store", os.DirFS(o.Dir)))
	left.Dir += "/store"
	left.Shards, left.memTable = 1, 2<<20
	for range 2 { // the second finds what the first has written out
		s, err := Open(left)
		must(t, err)
		rows, err := s.Datasets(job)
		must(t, err)
		if len(rows) != len(datasets) {
			t.Errorf("%d datasets are there, want %d", len(rows), len(datasets))
		}
		must(t, s.Close())
	}
}

// What was deleted is given back while others write: neither disturbs the other.
func TestCompactBesideWrites(t *testing.T) {
	o := small(t.TempDir())
	o.Shards, o.memTable = 1, 1<<20
	jobs := uint64(0)
	write := func(s *Store) { // 3 MiB, and deletes it
		var all sync.WaitGroup
		for range 100 {
			jobs++
			id, graph := jobID(jobs), make([]byte, 30<<10)
			binary.BigEndian.PutUint64(graph, jobs)
			all.Add(1)
			s.Create(&records.Job{ID: id}, &comms.Submit{Job: id}, graph, func(error) {
				s.Delete(id, func(error) { all.Done() })
			})
		}
		all.Wait()
	}
	for range 4 {
		s, err := Open(o)
		must(t, err)
		write(s)
		must(t, s.Close())
	}
	s := open(t, o)
	before := valueLogs(t, o.Dir)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				write(s)
			}
		}
	}()
	for try := 1; slices.Contains(valueLogs(t, o.Dir), before[0]); try++ {
		if try == 100 {
			t.Errorf("value log %s is there after %d compactions", before[0], try)
			break
		}
		must(t, s.shards[0].db.Flatten(1)) // what is garbage is known after a compaction of tables
		must(t, s.Compact(time.Minute))
	}
	close(stop)
	<-done
}

func valueLogs(t *testing.T, dir string) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*", "*.vlog"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no value logs", err)
	}
	return logs
}

// Jobs come newest first from whatever shard they are in, and no further than is asked.
func TestJobsBefore(t *testing.T) {
	s, err := Open(small(t.TempDir()))
	must(t, err)
	defer s.Close()
	const n = 40
	for i := range uint64(n) {
		create(t, s, jobID(i*7%n+1), nil)
	}
	for _, c := range []struct{ before, first uint64 }{{0, n}, {n + 1, n}, {n, n - 1}, {17, 16}, {2, 1}, {1, 0}} {
		want := c.first
		for row, err := range s.JobsBefore(jobID(c.before)) {
			must(t, err)
			if row.ID != jobID(want) {
				t.Fatalf("before %d: job %s, want %s", c.before, row.ID, jobID(want))
			}
			want--
		}
		if want != 0 {
			t.Errorf("before %d: %d jobs are missing", c.before, want)
		}
	}
	for row, err := range s.JobsBefore(comms.JobID{}) {
		must(t, err)
		if row.ID == jobID(n-3) {
			break
		}
	}
	last := comms.JobID(bytes.Repeat([]byte{0xff}, len(comms.JobID{}))) // the greatest that there can be
	create(t, s, last, nil)
	for row, err := range s.JobsBefore(comms.JobID{}) {
		if must(t, err); row.ID != last {
			t.Errorf("the first job is %s, want %s", row.ID, last)
		}
		break
	}
}
