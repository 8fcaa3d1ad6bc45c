package foreground

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// A task is told of the ends of its calls in the order of then, whatever the order in which it makes them; a call
// that it did not make then, or of another function, runs here; one of then that it does not make is waited for no longer
// than the task itself waits.
func TestAnswers(t *testing.T) {
	s, p, _ := connected(t, 0)
	p.release()
	s.link = <-s.up
	s.posted = make(chan func() error, 64)
	inline := func(output uint32, text string) comms.Desc {
		return comms.Desc{Ref: comms.DatasetRef{Output: output}, Codec: "raw", Size: uint64(len(text)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(text)}}
	}
	answer := func(f string, order uint64) *Answer {
		return &Answer{Function: f, Order: order, Results: []comms.Desc{inline(0, "then")}}
	}
	ref := func(n uint64) comms.CallRef { return comms.CallRef{Number: n} }
	var notes []string
	s.callee = s.newCallee(&Answers{
		Ended: map[comms.CallRef]*Answer{ref(0): answer("F", 3), ref(1): answer("F", 2), ref(2): answer("G", 1), ref(3): answer("F", 4), ref(9): answer("F", 0), ref(8): answer("F", 5), ref(7): answer("F", 6)},
		Run: func(_ context.Context, call *Call, _ func(comms.Desc)) ([]comms.Desc, *comms.TaskError, error) {
			return []comms.Desc{inline(0, fmt.Sprintf("%s of %q now", call.Kind.Function, call.Inputs[0].Data[0].Place.Bytes))}, nil, nil
		},
		Note: func(text string) { notes = append(notes, text) },
	})
	defer s.callee.end()
	take := func(m comms.Message) {
		t.Helper()
		if err := s.callee.take(m); err != nil {
			t.Fatal(err)
		}
	}
	told := func() string {
		var b strings.Builder
		switch m := (<-p.came).(type) {
		case *comms.CallEnds:
			for _, e := range m.Ends {
				fmt.Fprintf(&b, "%d %s; ", e.Ref.Number, e.Outputs[0].Place.Bytes)
			}
		case *comms.CallGo:
			fmt.Fprintf(&b, "go %d", m.Wait)
		default:
			fmt.Fprintf(&b, "%T", m)
		}
		return b.String()
	}
	want := func(text string) {
		t.Helper()
		if got := told(); got != text {
			t.Errorf("told %q, want %q", got, text)
		}
	}
	next := func() { // what was posted
		t.Helper()
		if err := (<-s.posted)(); err != nil {
			t.Fatal(err)
		}
	}
	call := func(n uint64) comms.CallItem {
		return comms.CallItem{Ref: ref(n), Kind: 1, Inputs: []comms.CallInput{{Data: inline(0, "v")}}}
	}
	kind := []comms.CallKind{{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "x"}}}}
	take(&comms.Calls{Kinds: kind, Items: []comms.CallItem{call(9), call(0), call(1)}})
	want("9 then; ")
	take(&comms.Calls{Items: []comms.CallItem{call(2)}}) // of another function: the turn of others has come
	want("1 then; 0 then; ")
	next()
	want(`2 F of "v" now; `)
	if len(notes) != 1 || notes[0] != "call 2 is of function F, and was of G: it runs here" {
		t.Errorf("notes %q", notes)
	}
	take(&comms.Calls{Items: []comms.CallItem{call(8)}}) // 3 is yet to come
	take(&comms.CallWait{Wait: 1, Refs: []comms.CallRef{ref(8)}, N: 1})
	next() // it does not come
	want("8 then; ")
	want("go 1")
	take(&comms.Calls{Items: []comms.CallItem{call(100)}}) // that it did not make then
	next()
	want(`100 F of "v" now; `)
	take(&comms.CallWait{Wait: 2, Seen: 5, N: 1})
	want("go 2")
	take(&comms.CallDrop{Refs: []comms.CallRef{ref(8)}, Cancel: true})
}

// A task that is to run up to a call ends with it, and its values are there.
func TestUntil(t *testing.T) {
	s, _, _ := connected(t, 0)
	until := comms.CallRef{Strand: 4, Number: 2}
	s.callee = s.newCallee(&Answers{Until: &until})
	defer s.callee.end()
	err := s.callee.take(&comms.Calls{Items: []comms.CallItem{{Ref: until, Inputs: []comms.CallInput{{From: comms.FromCall}, {Data: comms.Desc{Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("v")}}}}}}})
	if !errors.Is(err, ErrUntil) || len(s.callee.Given) != 2 || string(s.callee.Given[1].Place.Bytes) != "v" {
		t.Errorf("%v, given %+v", err, s.callee.Given)
	}
}
