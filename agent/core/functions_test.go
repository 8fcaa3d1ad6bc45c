package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// What an executor lacks or has otherwise is told of all functions at once, in order;
// what it has beside them does not matter.
func TestRegistryMismatch(t *testing.T) {
	const f, g, h = "(with {n int}) -> (x array f64)", "(x array f64) -> (y msgpack float64)", "(parts list of raw) -> (series of part raw)"
	program := []comms.FuncSig{{Name: "F", Sig: f}, {Name: "G", Sig: g}, {Name: "H", Sig: h}}
	for _, c := range []struct {
		name string
		have dag.Functions
		want string
	}{
		{"the same, and more", dag.Functions{"F": f, "G": g, "H": h, "I": f}, ""},
		{"one is missing", dag.Functions{"F": f, "H": h}, "missing in the executor: G"},
		{"several are missing", dag.Functions{"G": g}, "missing in the executor: F, H"},
		{"another parameter", dag.Functions{"F": "(with {n string}) -> (x array f64)", "G": g, "H": h},
			"the program has F(with {n int}) -> (x array f64), the executor F(with {n string}) -> (x array f64)"},
		{"another input", dag.Functions{"F": f, "G": "(z array f64) -> (y msgpack float64)", "H": h},
			"the program has G(x array f64) -> (y msgpack float64), the executor G(z array f64) -> (y msgpack float64)"},
		{"another result", dag.Functions{"F": f, "G": "(x array f64) -> (y msgpack int)", "H": h},
			"the program has G(x array f64) -> (y msgpack float64), the executor G(x array f64) -> (y msgpack int)"},
		{"one result for many", dag.Functions{"F": f, "G": g, "H": "(parts list of raw) -> (part raw)"},
			"the program has H(parts list of raw) -> (series of part raw), the executor H(parts list of raw) -> (part raw)"},
		{"all of it", dag.Functions{"F": g, "H": f},
			"the program has F" + f + ", the executor F" + g + "; the program has H" + h + ", the executor H" + f + "; missing in the executor: G"},
	} {
		if got := registryMismatch(program, c.have); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
	if got := registryMismatch(nil, dag.Functions{"F": f}); got != "" {
		t.Errorf("a job of a file: %s", got)
	}
}
