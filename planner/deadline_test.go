package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// What a deadline needs goes before a longer path, and no other task's rank changes.
func TestDeadline(t *testing.T) {
	job := func(deadline string) (*dag.Graph, profiles.Snapshot) {
		g := parse(t, "job: j\ntasks:\n  long: {run: F, out: [x]}\n  longer: {run: F, in: {x: long.x}, out: [x]}\n  a: {run: G, out: [x]}\n  b: {run: G, in: {x: a.x}, out: [x]"+deadline+"}\n")
		book := profiles.NewBook()
		for i, s := range []float64{10, 10, 1, 1} {
			book.Record(SignatureOf(g, i), profiles.Sample{Seconds: s})
		}
		return g, book.Snapshot()
	}
	one := Cluster{Hosts: []Host{{Name: "a", CPU: 1000}}}
	for _, c := range []struct {
		deadline string
		first    string // of all that starts
		late     string
	}{
		{"", "long", ""},
		{", deadline: 4s", "a", ""},
		{", deadline: 30s", "long", ""},
		{", deadline: 1500ms", "a", "b is predicted to end 2 s after the start, and its deadline is 1.5 s"},
	} {
		g, s := job(c.deadline)
		plain, none := job("")
		for name, plan := range map[string]func(*dag.Graph, profiles.Snapshot, Cluster) (*Plan, error){
			"make": Make, "order": Order,
			"best": func(g *dag.Graph, s profiles.Snapshot, c Cluster) (*Plan, error) {
				return Best(g, s, c, Effort{Evaluations: 5})
			},
		} {
			p, err := plan(g, s, one)
			if err != nil {
				t.Fatal(err)
			}
			q, err := plan(plain, none, one)
			if err != nil {
				t.Fatal(err)
			}
			first := slices.Index(p.Ranks, slices.Max(p.Ranks))
			if got := g.TaskName(dag.TaskIndex(first)); got != c.first || p.Ranks[0] != q.Ranks[0] || p.Ranks[1] != q.Ranks[1] {
				t.Errorf("%s%s: %s goes first, ranks %v", name, c.deadline, got, p.Ranks)
			}
			if text := p.LateText(g); text != c.late {
				t.Errorf("%s%s: %q", name, c.deadline, text)
			}
		}
	}
}

// Deadlines never lower a rank, a task ranks above those that need it, and what a
// plan says is late is what its times say.
func TestDeadlineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, c := layered(t), drawn(t)
		s := cost(t, g)
		before, err := Make(g, s, c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.Groups {
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
				g.Groups[i].Deadline = rapid.SampledFrom([]time.Duration{1, 3 * time.Second, 20 * time.Second}).Draw(t, "deadline")
			}
		}
		p, err := Best(g, s, c, Effort{Evaluations: rapid.IntRange(0, 20).Draw(t, "evaluations")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Ranks {
			if p.Ranks[i] < before.Ranks[i] {
				t.Fatalf("rank of %d falls from %g to %g", i, before.Ranks[i], p.Ranks[i])
			}
			for _, e := range g.Consumers(dag.TaskIndex(i)) {
				if p.Ranks[e.Consumer] > p.Ranks[i] {
					t.Fatalf("%d ranks below %d, which needs it", i, e.Consumer)
				}
			}
			late := slices.ContainsFunc(p.Late, func(l Late) bool { return int(l.Task) == i })
			d := g.Groups[i].Deadline.Seconds()
			if want := d > 0 && p.Tasks[i].Host >= 0 && p.Tasks[i].Finish > d; late != want {
				t.Fatalf("task %d ends at %g of %g: late %v", i, p.Tasks[i].Finish, d, late)
			}
		}
		if text := p.LateText(g); (text == "") != (len(p.Late) == 0) || strings.Contains(text, "and 0 more") {
			t.Fatalf("%d late: %q", len(p.Late), text)
		}
	})
}
