package cascade

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/dag"
)

type decodeParams struct {
	Path  string
	Steps int `with:"steps,optional"`
}

type spreadParams struct {
	Threshold float64
	Step      int
}

func decode(context.Context, decodeParams) iter.Seq2[Array[float64], error] { return nil }

func spread(context.Context, Array[float64], spreadParams) ([]float64, float64, error) {
	return nil, 0, nil
}

func collect(context.Context, List[float64]) (string, error) { return "", nil }

var (
	testDecode  = Gen1("testDecode", decode, "with -> field")
	testSpread  = Func2x2("testSpread", spread, "field, with -> mean, peak")
	testCollect = Func1("testCollect", collect, "peaks -> text")
)

func TestGraphBecomesGroups(t *testing.T) {
	g := NewGraph("ensemble")
	fields := testDecode.Add(g, "decode", With(decodeParams{Path: "${x}", Steps: 4}), Count(4))
	step := Range("step", 0, 3)
	mean, peak := testSpread.Map(g, "spread", Over(step),
		fields.At(step), With(spreadParams{Threshold: 2.5}).Set("step", step),
		CPU(0.5), Memory(64<<20), Retries(2), Timeout(time.Minute))
	text := testCollect.Add(g, "collect", peak.All().Min(3))
	sorted := g.Command("sort", nil, CommandSpec{
		Args: []string{"sort", "${in.text}"}, Inputs: map[string]Source{"text": text}, Out: []string{"lines"}, Stdout: "lines",
	})
	g.Output(sorted.Out("lines"), "out.txt")
	g.Output(mean, "means/")
	d, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if n := d.NumTasks(); n != 7 {
		t.Errorf("%d tasks, want 7", n)
	}
	if n := len(d.Groups); n != 4 {
		t.Errorf("%d groups, want 4: a family is one", n)
	}
	i, ok := d.Lookup("spread[2]")
	if !ok {
		t.Fatal("there is no task spread[2]")
	}
	in, err := d.Inputs(i)
	if err != nil {
		t.Fatal(err)
	}
	if s := in[0].Sources[0]; s.Kind != dag.SourceElement || s.Element != 2 {
		t.Errorf("input of spread[2] is %+v", s)
	}
	with, err := d.With(i)
	if err != nil {
		t.Fatal(err)
	}
	want := []dag.Field{{Name: "threshold", Value: 2.5}, {Name: "step", Value: int64(2)}}
	for k := range want {
		if with[k] != want[k] {
			t.Errorf("parameter %d is %+v, want %+v", k, with[k], want[k])
		}
	}
	with, err = d.With(0)
	if err != nil {
		t.Fatal(err)
	}
	if with[0].Value != "${x}" {
		t.Errorf("text of a parameter became %q: it must not be read as an expression", with[0].Value)
	}
	if grp := d.Group(i); grp.Resources.CPU != 500 || grp.Retries != 2 || grp.Timeout != time.Minute {
		t.Errorf("options were lost: %+v", grp)
	}
}

func TestMistakesOfAGraph(t *testing.T) {
	g := NewGraph("wrong")
	fields := testDecode.Add(g, "decode", With(decodeParams{}).Set("nothing", 1))
	mean, peak := testSpread.Map(g, "spread", Over(fields.Each("i")), fields.At(Expr("i")), With(spreadParams{}))
	testCollect.Add(g, "collect", Refs(peak.At(1, 2)))
	testCollect.Add(g, "nil", nil)
	g.Output(mean.At(3.5), "")
	_, err := g.Build()
	if err == nil {
		t.Fatal("a wrong graph was accepted")
	}
	for _, want := range []string{`no parameter "nothing"`, "spread has 1 axes, At got 2", "the argument is nil", "index 3.5 is float64"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestStreamedGroup(t *testing.T) {
	g := NewGraph("stream")
	fields := testDecode.Add(g, "decode", With(decodeParams{Path: "p"}))
	i := fields.Each("i")
	_, peak := testSpread.Map(g, "spread", Over(i), fields.At(i), With(spreadParams{}).Set("step", i))
	testCollect.Add(g, "collect", peak.All())
	d, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if d.NumSlots() != 1 || d.NumTasks() != 2 {
		t.Errorf("%d slots and %d tasks, want 1 and 2", d.NumSlots(), d.NumTasks())
	}
}

func TestMillionTasksAreOneGroup(t *testing.T) {
	g := NewGraph("million")
	fields := testDecode.Add(g, "decode", With(decodeParams{Path: "p"}), Count(1_000_000))
	i := Range("i", 0, 999_999)
	testSpread.Map(g, "spread", Over(i), fields.At(i), With(spreadParams{}))
	d, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 2 || d.NumTasks() != 1_000_001 {
		t.Errorf("%d groups, %d tasks", len(d.Groups), d.NumTasks())
	}
}
