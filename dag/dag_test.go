package dag

import (
	"os"
	"testing"
)

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

func TestSmoke(t *testing.T) {
	for _, f := range []string{"testdata/ensemble.yaml", "testdata/stream.yaml"} {
		g := load(t, f)
		show := func(i TaskIndex) {
			in, err := g.Inputs(i)
			w, err2 := g.With(i)
			c, err3 := g.Command(i)
			t.Log(i, g.TaskName(i), in, err, g.Consumers(i), w, err2, c, err3)
			if l, ok := g.Lookup(g.TaskName(i)); !ok || l != i {
				t.Error(l, ok)
			}
		}
		for i := range g.NumTasks() {
			show(TaskIndex(i))
		}
		for s := range g.NumSlots() {
			i, err := g.Instance(s, 7)
			if err != nil {
				t.Fatal(err)
			}
			show(i)
		}
		t.Log(g.Order(), g.Exports, g.StreamSlots(0, 0))
	}
}
