package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestSentFunctions: functions that went by value are counted by name and hash, others are left out.
func TestSentFunctions(t *testing.T) {
	sent := sentFunctions{}
	for _, call := range []struct{ function, input, host, told string }{
		{"__main__.f", codeInput + "ab12-70", "", "a1"},
		{"__main__.f", codeInput + "ab12-70", "a2", "a1"},
		{"__main__.f", codeInput + "ab12-70", "a2", "a1"},
		{"__main__.f", codeInput + "cd34-1048576", "", "a1"}, // it was changed
		{"__main__.a", codeInput + "ef56", "", "a1"},         // of an older client
		{"job.beside.triple", "x", "", "a1"},
		{"job.beside.none", "", "", "a1"},
	} {
		kind := comms.CallKind{Function: call.function}
		if call.input != "" {
			kind.Inputs = []comms.KindIn{{Name: call.input}, {Name: "y"}}
		}
		e := &comms.Event{Called: &comms.Called{Function: call.function, Host: call.host, Kind: comms.AppendCallKind(kind, "")}}
		if err := sent.add(comms.NewRecordRow(e, call.told)); err != nil {
			t.Fatal(err)
		}
	}
	want := []*sentFunction{
		{"__main__.a", "python", "ef56", 0, 1, []string{"a1"}},
		{"__main__.f", "python", "ab12", 70, 3, []string{"a1", "a2"}},
		{"__main__.f", "python", "cd34", 1 << 20, 1, []string{"a1"}},
	}
	if rows := sent.rows(); !reflect.DeepEqual(rows, want) {
		t.Errorf("got %+v\nwant %+v", rows, want)
	}
	kind := comms.CallKind{Inputs: []comms.KindIn{{Name: codeInput + "ab12-many"}}}
	err := sent.add(comms.NewRecordRow(&comms.Event{Called: &comms.Called{Kind: comms.AppendCallKind(kind, "")}}, "a1"))
	if err == nil || !strings.Contains(err.Error(), "the size of the code") {
		t.Errorf("a size that is no number: %v", err)
	}
}
