package dag

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	c := indexCheck{reporter: t, g: g, want: map[use]int{}, got: map[use]int{}, bound: map[use]bool{}, slotReads: map[use]bool{}}
	c.listNodes()
	for _, i := range c.nodes {
		c.readInputs(i)
	}
	for _, i := range c.nodes {
		c.readConsumers(i)
	}
	c.readGroups()
	c.compare()
	checkOrder(t, g)
}

// checkedElement is the element of each streamed group that stands for all.
const checkedElement = 3

// use is a source in the inputs of a task, or an edge to a consumer.
type use struct {
	producer TaskIndex
	edge     Edge
}

type indexCheck struct {
	reporter
	g         *Graph
	nodes     []TaskIndex
	want, got map[use]int  // by inputs, by consumers
	bound     map[use]bool // slots by the stream that they follow
	slotReads map[use]bool // slots by what all of their instances read, until found
}

func (c *indexCheck) listNodes() {
	c.Helper()
	for i := range c.g.NumTasks() {
		c.nodes = append(c.nodes, TaskIndex(i))
	}
	for s := range c.g.NumSlots() {
		i, err := c.g.Instance(s, checkedElement)
		if err != nil {
			c.Fatal(err)
		}
		if slot, e, ok := c.g.Slot(i); !ok || slot != s || e != checkedElement {
			c.Fatalf("slot of instance(%d, %d) is %d, %d, %v", s, checkedElement, slot, e, ok)
		}
		c.nodes = append(c.nodes, i)
	}
	for _, i := range c.nodes {
		if found, ok := c.g.Lookup(c.g.TaskName(i)); !ok || found != i {
			c.Fatalf("lookup of %q gives %d, %v; want %d", c.g.TaskName(i), found, ok, i)
		}
	}
}

func (c *indexCheck) readInputs(i TaskIndex) {
	c.Helper()
	inputs, err := c.g.Inputs(i)
	if err != nil {
		c.Fatal(err)
	}
	slot, _, instance := c.g.Slot(i)
	for _, in := range inputs {
		for _, s := range in.Sources {
			producer := s.Task
			_, e, fromInstance := c.g.Slot(producer)
			switch {
			case s.Kind == SourceGroup && e != 0:
				c.Fatalf("%s: group source %v is not of element 0", c.g.TaskName(i), s)
			case instance && s.Kind == SourceElement && c.g.Group(i).Stream.Generator == producer && c.g.Group(i).Stream.Output == s.Output:
				c.bound[use{producer, Edge{Output: s.Output, Element: uint64(slot)}}] = true
			case instance && (s.Kind == SourceGroup || !fromInstance):
				c.slotReads[use{producer, Edge{Output: s.Output, Consumer: TaskIndex(slot)}}] = true
			default: // a whole group is found at element 0 of its slot
				c.want[use{producer, Edge{Consumer: i, Output: s.Output, Element: s.Element, Kind: s.Kind}}]++
			}
		}
	}
}

func (c *indexCheck) readConsumers(i TaskIndex) {
	c.Helper()
	edges := c.g.Consumers(i)
	for k, e := range edges {
		if _, _, instance := c.g.Slot(i); !instance || e.Kind != SourceGroup { // those stand at element 0, too: see readGroups
			c.got[use{i, e}]++
		}
		if k > 0 && edges[k-1].Output > e.Output {
			c.Fatalf("consumers of %s are not in the order of outputs", c.g.TaskName(i))
		}
	}
	if _, _, instance := c.g.Slot(i); instance {
		return
	}
	for o := range c.g.Group(i).Outputs {
		for _, s := range c.g.SlotConsumers(i, uint32(o)) {
			u := use{i, Edge{Output: uint32(o), Consumer: TaskIndex(s)}}
			if !c.slotReads[u] {
				c.Fatalf("slot %d does not read %s", s, c.g.TaskName(i))
			}
			delete(c.slotReads, u)
		}
	}
}

// readGroups reads the consumers of whole streamed groups.
func (c *indexCheck) readGroups() {
	c.Helper()
	for s := range c.g.NumSlots() {
		zero, err := c.g.Instance(s, 0)
		if err != nil {
			c.Fatal(err)
		}
		for _, e := range c.g.Consumers(zero) {
			if e.Kind == SourceGroup {
				c.got[use{zero, e}]++
			}
		}
		for o := range c.g.Group(zero).Outputs {
			for _, slot := range c.g.SlotConsumers(zero, uint32(o)) {
				delete(c.slotReads, use{zero, Edge{Output: uint32(o), Consumer: TaskIndex(slot)}})
			}
		}
	}
}

func (c *indexCheck) compare() {
	c.Helper()
	if !maps.Equal(c.want, c.got) {
		c.Fatalf("%d uses, %d edges\n%v\n%v", len(c.want), len(c.got), c.want, c.got)
	}
	if len(c.slotReads) > 0 {
		c.Fatalf("not in SlotConsumers: %v", c.slotReads)
	}
	for u := range c.bound {
		if !slices.Contains(c.g.StreamSlots(u.producer, u.edge.Output), int(u.edge.Element)) {
			c.Fatalf("slot %d is not bound to %s", u.edge.Element, c.g.TaskName(u.producer))
		}
	}
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
