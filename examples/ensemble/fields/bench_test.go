package fields

import (
	"io"
	"testing"
)

func BenchmarkDrawMap(b *testing.B) {
	a := openArchive(b)
	step := make([]float64, a.StepLen())
	if err := a.Step(step, 0); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m := Map{Title: "first member", Scheme: SchemeMean, Grid: a.Grid, Values: step[:a.Points()]}
		if err := m.WritePNG(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
