package graphcache

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func encoded(t *testing.T, name string) []byte {
	t.Helper()
	b := dag.NewBuilder(name)
	b.Add(dag.Group{Name: "t", Run: dag.Run{Function: "f"}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g.Encode()
}

func decode(t *testing.T, gs *Graphs, b []byte) *dag.Graph {
	t.Helper()
	g, err := gs.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSame(t *testing.T) {
	one, other := encoded(t, "one"), encoded(t, "other")
	var gs Graphs
	g := decode(t, &gs, one)
	if again := decode(t, &gs, append([]byte(nil), one...)); again != g || g.Name != "one" {
		t.Errorf("the same bytes gave %q and another graph", again.Name)
	}
	if o := decode(t, &gs, other); o == g || o.Name != "other" {
		t.Errorf("other bytes gave %q", o.Name)
	}
	if _, err := gs.Decode(one[:len(one)-1]); err == nil {
		t.Error("half a graph was decoded")
	}
	if alone := decode(t, nil, one); alone == g || alone.Name != "one" {
		t.Errorf("without anybody to share with it is %q", alone.Name)
	}
	runtime.KeepAlive(g)
}

// What nobody uses any more is not kept, neither as a graph nor for long as an entry.
func TestForgotten(t *testing.T) {
	var gs Graphs
	for i := range 20 * few {
		decode(t, &gs, encoded(t, fmt.Sprintf("job%d", i)))
		if i%few == 0 {
			runtime.GC()
		}
	}
	if n := len(gs.known); n > 2*few {
		t.Errorf("%d entries are kept", n)
	}
}

// What a client has made is what the others decode, unless nobody has checked it.
func TestAdd(t *testing.T) {
	var gs Graphs
	g, err := dag.Decode(encoded(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	gs.Add(encoded(t, "one"), g)
	if got := decode(t, &gs, encoded(t, "one")); got != g {
		t.Error("a graph that is there was decoded")
	}
	gs.Add(encoded(t, "two"), &dag.Graph{Name: "two"})
	if got := decode(t, &gs, encoded(t, "two")); got.NumTasks() != 1 {
		t.Errorf("a literal stands for a graph: %d tasks", got.NumTasks())
	}
	(*Graphs)(nil).Add(encoded(t, "one"), g)
	runtime.KeepAlive(g)
}
