package executor

import (
	"context"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// A kind that is like another of its function shares parameters between its runs as that one does.
func TestLikeKindsShareParameters(t *testing.T) {
	reg := &Registry{}
	e := New(Config{Registry: reg})
	reg.Register(&Func{Name: "F", Call: func(context.Context, []any, []any) error { return nil }}, withScale, "n, with -> m")
	m := &comms.Kind{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "n"}}, Outputs: []comms.KindOut{{Name: "m"}}}
	first, second := e.newKind(m), e.newKind(m)
	if first.problem != nil || !first.flat || !second.flat {
		t.Errorf("%v: flat is %v, then %v", first.problem, first.flat, second.flat)
	}
}

func withScale(context.Context, int, struct{ By int }) (int, error) { return 0, nil }
