package gcs

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// modelJob is what the store should have of a job.
type modelJob struct {
	row    records.Job
	graph  string
	events []dag.TaskIndex
	data   map[comms.DatasetRef]uint64
	seen   uint64
}

// TestStoreAgainstModel runs random histories against plain maps, with reopening in between.
func TestStoreAgainstModel(t *testing.T) {
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		o := small(fmt.Sprintf("%s/%d", root, run))
		o.Shards, o.memTable = 1+run%2, 1<<20
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		model := map[comms.JobID]*modelJob{}
		id := rapid.Uint64Range(0, 5)
		do := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				job := jobID(id.Draw(t, "job"))
				if model[job] != nil {
					t.Skip("there already")
				}
				m := &modelJob{row: records.Job{ID: job, Phase: comms.JobQueued}, graph: rapid.StringN(0, 20, -1).Draw(t, "graph"), data: map[comms.DatasetRef]uint64{}}
				do(wait(func(d func(error)) { s.Create(&m.row, &comms.Submit{Job: job}, []byte(m.graph), d) }))
				model[job] = m
			},
			"commit": func(t *rapid.T) {
				job := jobID(id.Draw(t, "job"))
				m := model[job]
				if m == nil {
					t.Skip("no such job")
				}
				tasks := rapid.SliceOfN(rapid.Uint32Range(0, 50), 0, 5).Draw(t, "tasks")
				c := records.Commit{Job: job, Batch: &records.Batch{Number: m.row.Batches, First: m.seen + 1}, Agent: job.String()}
				for _, i := range tasks {
					c.Batch.Events = append(c.Batch.Events, finished(dag.TaskIndex(i))...)
					m.events = append(m.events, dag.TaskIndex(i))
				}
				ref := comms.DatasetRef{Task: dag.TaskIndex(rapid.Uint32Range(0, 3).Draw(t, "dataset"))}
				if rapid.Bool().Draw(t, "drop") {
					c.Drop = []comms.DatasetRef{ref}
					delete(m.data, ref)
				} else {
					size := rapid.Uint64().Draw(t, "size")
					c.Datasets = []records.Dataset{{Desc: comms.Desc{Ref: ref, Size: size}}}
					m.data[ref] = size
				}
				m.seen += uint64(len(tasks))
				m.row.Batches++
				row := m.row
				c.Row, c.Seen = &row, records.Seen{UpTo: m.seen}
				do(wait(func(d func(error)) { s.Commit(c, d) }))
			},
			"delete": func(t *rapid.T) {
				job := jobID(id.Draw(t, "job"))
				do(wait(func(d func(error)) { s.Delete(job, d) }))
				delete(model, job)
			},
			"reopen": func(t *rapid.T) {
				if rapid.IntRange(0, 7).Draw(t, "rarely") > 0 {
					t.Skip("it takes long")
				}
				do(s.Close())
				s, err = Open(o)
				do(err)
			},
			"": func(t *rapid.T) { compare(t, s, model) },
		})
	})
}

func compare(t *rapid.T, s *Store, model map[comms.JobID]*modelJob) {
	n := 0
	for row, err := range s.Jobs() {
		if err != nil || model[row.ID] == nil {
			t.Fatalf("job %s: %v, in the model: %v", row.ID, err, model[row.ID] != nil)
		}
		n++
	}
	if n != len(model) {
		t.Fatalf("%d jobs, want %d", n, len(model))
	}
	for job, m := range model {
		d, err := s.Load(job)
		if err != nil {
			t.Fatal(err)
		}
		var events []dag.TaskIndex
		for b, err := range s.Batches(job) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Events {
				events = append(events, b.Events[i].Task)
			}
		}
		ds, err := s.Datasets(job)
		if err != nil {
			t.Fatal(err)
		}
		data := map[comms.DatasetRef]uint64{}
		for i := range ds {
			data[ds[i].Desc.Ref] = ds[i].Desc.Size
		}
		if string(d.Graph) != m.graph || d.Row.Batches != m.row.Batches || !slices.Equal(events, m.events) || !maps.Equal(data, m.data) {
			t.Fatalf("job %s: graph %q row %+v events %v data %v; want %+v", job, d.Graph, d.Row, events, data, m)
		}
		if m.row.Batches > 0 && d.Seen[job.String()].UpTo != m.seen {
			t.Fatalf("seen %+v, want %d", d.Seen, m.seen)
		}
	}
}

// writeUntilKilled is the other process of TestAcknowledgedSurvivesKill: it prints
// the number of each batch that was acknowledged.
func writeUntilKilled(dir string) {
	s, err := Open(small(dir))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	job := jobID(1)
	out := bufio.NewWriter(os.Stdout)
	s.Create(&records.Job{ID: job}, &comms.Submit{Job: job}, []byte("graph"), func(error) {})
	for n := uint64(0); ; n++ {
		c := records.Commit{Job: job, Agent: "a", Seen: records.Seen{UpTo: n}, Batch: &records.Batch{Number: n, First: n, Events: finished(dag.TaskIndex(n))}}
		done := make(chan struct{})
		s.Commit(c, func(err error) {
			fmt.Fprintln(out, n, err)
			if out.Flush() != nil {
				os.Exit(1)
			}
			close(done)
		})
		if n%16 == 0 { // several in flight, so that groups form
			<-done
		}
	}
}

func TestAcknowledgedSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GCS_TEST_WRITE_UNTIL_KILLED="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	acked, lines := -1, bufio.NewScanner(out)
	for lines.Scan() {
		if !strings.HasSuffix(lines.Text(), " <nil>") {
			t.Fatalf("the writer says: %s", lines.Text())
		}
		if acked++; acked == 2000 {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	s := open(t, small(dir)) // the lock must be free again, too
	next := uint64(0)
	for b, err := range s.Batches(jobID(1)) {
		must(t, err)
		if b.Number != next {
			t.Fatalf("batch %d where %d should be", b.Number, next)
		}
		next++
	}
	d, err := s.Load(jobID(1))
	must(t, err)
	if next <= uint64(acked) || d.Seen["a"].UpTo != next-1 {
		t.Errorf("%d batches acknowledged, %d there, seen %+v: the number must move with the batch", acked+1, next, d.Seen)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, events := range []int{1, 100} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			s := open(b, small(b.TempDir()))
			create(b, s, jobID(1), []byte("g"))
			es := finished(make([]dag.TaskIndex, events)...)
			slots := make(chan struct{}, 256) // commits in flight
			for n := range b.N {
				slots <- struct{}{}
				s.Commit(records.Commit{Job: jobID(1), Batch: &records.Batch{Number: uint64(n), Events: es}, Agent: "a", Seen: records.Seen{UpTo: uint64(n)}},
					func(err error) {
						if err != nil {
							b.Error(err)
						}
						<-slots
					})
			}
			must(b, wait(func(d func(error)) { s.Barrier(jobID(1), d) }))
			b.ReportMetric(float64(b.N*events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
