package ui

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
)

// What a person reads first, by what is so.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*sight)
		kind    string
		because []string // begins of sentences
	}{
		{"late", func(*sight) {}, "late", []string{"model[2] runs on node7 for 2 h 20 min; tasks of model usually take 1 h.", "model[1] failed on node7: exit: status 3"}},
		{"held", func(s *sight) { s.progress.Phase = comms.JobHeld }, "held", []string{"It is on hold", "model[2] runs"}},
		{"no host", func(s *sight) { s.hosts = nil }, "late", []string{"No host is there"}},
		{"cut off", func(s *sight) { s.hosts, s.alone = nil, true }, "late", []string{"Nothing serves this state now"}},
		{"waits", func(s *sight) { s.progress.Waits = "no host has a device" }, "late", []string{"It waits: no host has a device."}},
		{"in time", func(s *sight) {
			s.progress.Late, s.progress.Started = "", s.now.Add(-time.Hour).UnixNano()
			s.rows[4].Seconds = 3000
		}, "running", []string{"model[1] failed"}},
		{"host lost", func(s *sight) {
			s.losses = []comms.LossRow{{Agent: "node8", Why: "connection closed", Then: "they run elsewhere", Running: 3, Open: true}}
		}, "late", []string{"model[2] runs", "Host node8 was lost (connection closed) with 3 tasks that ran there: they run elsewhere."}},
		{"failed", func(s *sight) { s.progress.Phase = comms.JobFailed }, "failed", []string{"model[1] failed"}},
		{"done", func(s *sight) {
			s.progress.Phase = comms.JobDone
			s.rows = s.rows[:3]
		}, "done", nil},
	} {
		f := newFake(t)
		p := f.progress
		s := &sight{now: at, progress: &p, graph: f.graph, rows: f.tasks, whole: true, plan: f.plan, hosts: f.hosts}
		for i := range s.rows {
			soFar(&s.rows[i], s.now)
		}
		c.change(s)
		got, _ := paintPicture(s)
		if got.Verdict.Kind != c.kind {
			t.Errorf("%s: %s, want %s", c.name, got.Verdict.Kind, c.kind)
		}
		for i, want := range c.because {
			if i >= len(got.Verdict.Because) || !strings.HasPrefix(got.Verdict.Because[i], want) {
				t.Errorf("%s: %q, want %q as number %d", c.name, got.Verdict.Because, want, i)
			}
		}
		if len(c.because) == 0 && len(got.Verdict.Because) > 0 {
			t.Errorf("%s: %q", c.name, got.Verdict.Because)
		}
	}
}

// Errors that differ by numbers alone are one cause.
func TestCauses(t *testing.T) {
	var rows []comms.TaskRow
	for i := range 300 {
		rows = append(rows, comms.TaskRow{Name: fmt.Sprintf("a[%d]", i), Group: "a", State: "failed", Error: fmt.Sprintf("exit: no file %d.grib at 0xc00%d\nmore %d", i, i, i), Started: at.Add(time.Duration(i) * time.Second).Format(time.RFC3339)})
	}
	rows = append(rows, comms.TaskRow{Name: "b", Group: "b", State: "failed", Error: strings.Repeat("é", shownError+7)}, comms.TaskRow{Name: "c", Group: "a", State: "done"})
	got := causesOf(rows)
	if len(got) != 2 || got[0].Count != 300 || got[0].Task != "a[0]" || got[0].First >= got[0].Last || got[1].Count != 1 || !strings.HasSuffix(got[1].Message, "… and 7 characters more") {
		t.Errorf("%+v", got)
	}
}

func TestSpans(t *testing.T) {
	for s, want := range map[float64]string{0.0123: "12.3 ms", 0.5: "500 ms", 2: "2 s", 2.04: "2 s", 9.96: "10 s", 59.4: "59 s", 59.6: "1 min", 192: "3 min 12 s", 3600: "1 h", 8400: "2 h 20 min", 90000: "1 d 1 h"} {
		if got := span(s); got != want {
			t.Errorf("%v: %q, want %q", s, got, want)
		}
	}
}

// chain is a job of families one after the other, of which the tasks of each take as much longer than
// planned as factor says.
func chain(families, width int, ended float64, factor func(family int) float64) (rows []comms.TaskRow, plan []comms.PlanRow, left float64) {
	now := ended
	start := 0.0
	for f := range families {
		slowest := 0.0
		for i := range width {
			name := fmt.Sprintf("f%d[%d]", f, i)
			plan = append(plan, comms.PlanRow{Task: name, Start: float64(f) * 100, Finish: float64(f+1) * 100, Rank: float64(families-f) * 100})
			takes := 100 * factor(f)
			slowest = max(slowest, takes)
			r := comms.TaskRow{Name: name, Group: fmt.Sprint("f", f), State: "waiting"}
			switch {
			case start+takes <= now:
				r.State, r.Seconds = "done", takes
			case start <= now:
				r.State, r.Seconds = "running", now-start
			}
			rows = append(rows, r)
		}
		start += slowest
	}
	return rows, plan, start - now
}

func TestPredictProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		families, width := rapid.IntRange(1, 8).Draw(t, "families"), rapid.IntRange(1, 5).Draw(t, "width")
		slow, ended := rapid.Float64Range(0.2, 5).Draw(t, "slow"), rapid.Float64Range(0, 2000).Draw(t, "ended")
		rows, plan, _ := chain(families, width, ended, func(int) float64 { return slow })
		e := predict(rows, plan, 7)
		open := slices.ContainsFunc(rows, func(r comms.TaskRow) bool { return unended(r.State) })
		if (e != nil) != open {
			t.Fatalf("%+v of a job that has tasks to run: %v", e, open)
		}
		if e == nil {
			return
		}
		if !(e.Low > 0 && e.Low <= e.Expected && e.Expected <= e.High) || math.IsInf(e.High, 0) || math.IsNaN(e.High) {
			t.Fatalf("%+v", e)
		}
		if again := predict(rows, plan, 7); *again != *e {
			t.Fatalf("%+v, then %+v", e, again)
		}
	})
}

// Eight of ten true ends lie in the span, or more: families are slower or faster than planned, and what is
// not known about the first is not known about the last.
func TestPredictHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	within, all := 0, 0
	for range 300 {
		shared := 0.2 * random.NormFloat64()
		of := map[int]float64{}
		rows, plan, left := chain(6, 4, 150+350*random.Float64(), func(f int) float64 {
			if of[f] == 0 {
				of[f] = math.Exp(shared + 0.25*random.NormFloat64())
			}
			return of[f] * math.Exp(0.05*random.NormFloat64())
		})
		e := predict(rows, plan, random.Uint64())
		if e == nil || left <= 0 {
			continue
		}
		if all++; e.Low <= left && left <= e.High {
			within++
		}
	}
	if share := float64(within) / float64(all); all < 200 || share < 0.7 || share > 0.97 {
		t.Errorf("%d of %d ends lie in the span", within, all)
	}
}

// Runs of one lane never lie on each other, and bins have as much as the runs.
func TestTimelineProperties(t *testing.T) {
	g := newFake(t).graph
	rapid.Check(t, func(t *rapid.T) {
		run := &report.Run{Graph: g, Hosts: []string{"a", "b"}}
		total := 0.0
		for i := range rapid.IntRange(0, 60).Draw(t, "runs") {
			k := report.Task{Host: rapid.IntRange(0, 1).Draw(t, "host"), Start: rapid.Float64Range(0, 100).Draw(t, "start")}
			k.Name, k.Group, k.State = fmt.Sprint(i), "model", "done"
			k.Finish = k.Start + rapid.Float64Range(0.01, 30).Draw(t, "takes")
			total += k.Finish - k.Start
			run.Tasks = append(run.Tasks, k)
		}
		slices.SortFunc(run.Tasks, func(a, b report.Task) int { return int(math.Copysign(1, a.Start-b.Start)) })
		s := &sight{graph: g}
		all := drawTimeline(run, s, 0, 0)
		if all.Tasks != len(run.Tasks) || len(all.Runs) != len(run.Tasks) {
			t.Fatalf("%d of %d", all.Tasks, len(run.Tasks))
		}
		for i, a := range all.Runs {
			if a.Row >= all.Hosts[a.Host].Rows {
				t.Fatalf("row %d of %d", a.Row, all.Hosts[a.Host].Rows)
			}
			for _, b := range all.Runs[:i] {
				if a.Host == b.Host && a.Row == b.Row && a.Row < laneRows-1 && a.Start < b.Start+b.Took-0.002 && b.Start < a.Start+a.Took-0.002 {
					t.Fatalf("%+v lies on %+v", a, b)
				}
			}
		}
		binned := &timelineState{From: 0, To: max(run.End(), 1), Hosts: []laneRow{{}, {}}}
		inside := make([]*report.Task, len(run.Tasks))
		for i := range run.Tasks {
			inside[i] = &run.Tasks[i]
		}
		binned.binned(inside, map[string]int{"model": 1})
		sum := 0.0
		for _, b := range binned.Bins {
			sum += b.Busy * binned.Width
		}
		if math.Abs(sum-total) > 0.01*total+0.6*binned.Width {
			t.Fatalf("%v in bins of %v", sum, total)
		}
	})
}
