package dag

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestIntegersAreTheMachines compares the short way with the virtual machine, values and mistakes.
func TestIntegersAreTheMachines(t *testing.T) {
	sc := &scope{vars: []string{"i", "word"}, params: map[string]any{"n": int64(7), "f": 1.5}}
	grp := &Group{Name: "g", Axes: []Axis{Range("i", -3, 9), {Var: "word", Values: []any{"a", int64(4)}}}}
	var operand, sum *rapid.Generator[string]
	operand = rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"i", "i", "i", "word", "3", "0", "params.n", "params.f", "9223372036854775807", "(-i)", "2.5"}).Draw(t, "operand")
	})
	sum = rapid.Custom(func(t *rapid.T) string {
		text := operand.Draw(t, "first")
		for range rapid.IntRange(1, 4).Draw(t, "more") {
			text = fmt.Sprintf("(%s %s %s)", text, rapid.SampledFrom([]string{"+", "-", "*", "%", "%", "/", "**"}).Draw(t, "sign"), operand.Draw(t, "next"))
		}
		return text
	})
	short := 0
	rapid.Check(t, func(t *rapid.T) {
		src := sum.Draw(t, "expression")
		e, err := programs{}.compile(src, sc)
		if err != nil || e.constant() {
			return
		}
		machine := *e
		machine.ints = nil
		for local := range uint32(26) {
			row := &groupRow{group: grp, local: local}
			if e.ints != nil {
				if _, ok := e.ints.eval(row); ok {
					short++
				}
			}
			got, gotErr := e.eval(sc, row)
			want, wantErr := machine.eval(sc, row)
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("%s of task %d: %v, %v; the machine says %v, %v", src, local, got, gotErr, want, wantErr)
			}
		}
	})
	if short == 0 {
		t.Error("nothing went the short way")
	}
}
