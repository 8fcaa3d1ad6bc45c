package dag

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file in testdata, or rewrites it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

func load(t testing.TB, file string) *Graph {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseYAML(file, data, Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func parse(t testing.TB, text string) *Graph {
	t.Helper()
	g, err := ParseYAML("job.yaml", []byte(text), Override{}, Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return g
}

// TestJobs expands each job file of testdata/jobs and prints it as text and as YAML.
func TestJobs(t *testing.T) {
	files, err := filepath.Glob("testdata/jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			g := load(t, f)
			printed := checkRoundTrip(t, g)
			checkIndex(t, g)
			golden(t, strings.TrimSuffix(f, ".yaml")+".golden", []byte(g.Text()+"\n"+string(printed)))
		})
	}
}

// TestMistakes parses each job file of testdata/mistakes and compares all its problems.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseYAML(filepath.Base(f), data, Override{}, Options{})
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("no problems but %v", err)
			}
			for _, p := range problems {
				if p.File == "" || p.Line == 0 || p.Col == 0 || p.Hint == "" {
					t.Errorf("without place or hint: %+v", p)
				}
			}
			golden(t, strings.TrimSuffix(f, ".yaml")+".golden", []byte(problems.Error()+"\n"))
		})
	}
}

// checkRoundTrip holds the graph against its encoded and printed forms.
func checkRoundTrip(t reporter, g *Graph) []byte {
	t.Helper()
	code := g.Encode()
	decoded, err := Decode(code)
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, g.Text())
	}
	if !bytes.Equal(decoded.Encode(), code) {
		t.Fatal("encoding a decoded graph gives other bytes")
	}
	printed, err := g.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseYAML("printed.yaml", printed, Override{}, Options{})
	if err != nil {
		t.Fatalf("parse what was printed: %v\n%s", err, printed)
	}
	if !bytes.Equal(again.Encode(), code) {
		t.Fatalf("the printed job is another one:\n%s", printed)
	}
	twice, err := again.YAML()
	if err != nil || !bytes.Equal(printed, twice) {
		t.Fatalf("printing is not stable (%v):\n%s\n%s", err, printed, twice)
	}
	if a, b := g.Text(), decoded.Text(); a != b || a != again.Text() {
		t.Fatalf("expansions differ:\n%s\n%s", a, b)
	}
	return printed
}

// checkIndex holds the derived index against its definition: consumers are the
// inverse of inputs, names are found again, the order is topological.
func checkIndex(t reporter, g *Graph) {
	t.Helper()
	const element = 3
	nodes := make([]TaskIndex, 0, g.NumTasks()+g.NumSlots())
	for i := range g.NumTasks() {
		nodes = append(nodes, TaskIndex(i))
	}
	for s := range g.NumSlots() {
		i, err := g.Instance(s, element)
		if err != nil {
			t.Fatal(err)
		}
		if slot, e, ok := g.Slot(i); !ok || slot != s || e != element {
			t.Fatalf("slot of instance(%d, %d) is %d, %d, %v", s, element, slot, e, ok)
		}
		nodes = append(nodes, i)
	}
	type use struct {
		producer TaskIndex
		edge     Edge
	}
	want, got := map[use]int{}, map[use]int{}
	bound := map[use]bool{}
	slotReads := map[use]bool{}
	for _, i := range nodes {
		if found, ok := g.Lookup(g.TaskName(i)); !ok || found != i {
			t.Fatalf("lookup of %q gives %d, %v; want %d", g.TaskName(i), found, ok, i)
		}
		inputs, err := g.Inputs(i)
		if err != nil {
			t.Fatal(err)
		}
		slot, _, instance := g.Slot(i)
		for _, in := range inputs {
			for _, s := range in.Sources {
				producer := s.Task
				u := use{producer, Edge{Consumer: i, Output: s.Output, Element: s.Element, Kind: s.Kind}}
				_, e, fromInstance := g.Slot(producer)
				switch {
				case s.Kind == SourceGroup && e != 0:
					t.Fatalf("%s: group source %v is not of element 0", g.TaskName(i), s)
				case s.Kind == SourceGroup && !instance:
					want[u]++ // found at element 0 of the slot
				case instance && s.Kind == SourceElement && g.Group(i).Stream.Generator == producer && g.Group(i).Stream.Output == s.Output:
					bound[use{producer, Edge{Output: s.Output, Element: uint64(slot)}}] = true
				case instance && (s.Kind == SourceGroup || !fromInstance):
					slotReads[use{producer, Edge{Output: s.Output, Consumer: TaskIndex(slot)}}] = true
				default:
					want[u]++
				}
			}
		}
	}
	collect := func(i TaskIndex) {
		edges := g.Consumers(i)
		for k, e := range edges {
			got[use{i, e}]++
			if k > 0 && edges[k-1].Output > e.Output {
				t.Fatalf("consumers of %s are not in the order of outputs", g.TaskName(i))
			}
		}
		for o := range g.Group(i).Outputs {
			for _, s := range g.SlotConsumers(i, uint32(o)) {
				u := use{i, Edge{Output: uint32(o), Consumer: TaskIndex(s)}}
				if slot, e, ok := g.Slot(i); ok && e != 0 {
					_ = slot
					continue
				}
				if !slotReads[u] {
					t.Fatalf("slot %d does not read %s", s, g.TaskName(i))
				}
				delete(slotReads, u)
			}
		}
	}
	for _, i := range nodes {
		collect(i)
	}
	for s := range g.NumSlots() {
		zero, err := g.Instance(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range g.Consumers(zero) {
			if e.Kind == SourceGroup {
				got[use{zero, e}]++
			}
		}
		for o := range g.Group(zero).Outputs {
			for _, slot := range g.SlotConsumers(zero, uint32(o)) {
				delete(slotReads, use{zero, Edge{Output: uint32(o), Consumer: TaskIndex(slot)}})
			}
		}
	}
	for u := range got { // group edges of element 3 stand beside those of element 0
		if u.edge.Kind == SourceGroup {
			if _, e, _ := g.Slot(u.producer); e == element {
				delete(got, u)
			}
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d uses, %d edges\n%v\n%v", len(want), len(got), want, got)
	}
	for u, n := range want {
		if got[u] != n {
			t.Fatalf("%v: %d uses, %d edges", u, n, got[u])
		}
	}
	if len(slotReads) > 0 {
		t.Fatalf("not in SlotConsumers: %v", slotReads)
	}
	for u := range bound {
		found := false
		for _, s := range g.StreamSlots(u.producer, u.edge.Output) {
			found = found || uint64(s) == u.edge.Element
		}
		if !found {
			t.Fatalf("slot %d is not bound to %s", u.edge.Element, g.TaskName(u.producer))
		}
	}
	checkOrder(t, g)
}

func checkOrder(t reporter, g *Graph) {
	t.Helper()
	order := g.Order()
	at := make(map[TaskIndex]int, len(order))
	for k, i := range order {
		at[i] = k
	}
	if len(at) != g.NumTasks() {
		t.Fatalf("order has %d of %d tasks", len(at), g.NumTasks())
	}
	for _, i := range order {
		inputs, _ := g.Inputs(i)
		for _, in := range inputs {
			for _, s := range in.Sources {
				producer := s.Task
				if _, _, ok := g.Slot(producer); ok {
					producer = g.Group(producer).Stream.Generator
				}
				if at[producer] >= at[i] {
					t.Fatalf("%s is ordered before its producer %s", g.TaskName(i), g.TaskName(producer))
				}
			}
		}
	}
}

// reporter is what testing.T and rapid.T have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
