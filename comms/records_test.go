package comms

import (
	"reflect"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// Records of tasks reserve a control edge (Parent) and a stateful edge (Actor,
// Sequence): records written without them are read, those with them are kept, and
// a reader that does not know what comes behind them reads on.
func TestReservedEdges(t *testing.T) {
	full := Event{Kind: EventFinished, Task: 7, Attempt: 2, At: 99, Executor: 3, Count: 1,
		Parent: []byte("parent"), Actor: []byte("actor"), Sequence: 41}
	bare := full // what comes behind the reserved fields is missing too
	bare.Parent, bare.Actor, bare.Sequence = nil, nil, 0
	for _, tt := range []struct {
		name   string
		change func(fields []any) []any
		want   Event
	}{
		{"as it is", func(f []any) []any { return f }, full},
		{"older", func(f []any) []any { return f[:parentAt(f)] }, bare},
		{"newer", func(f []any) []any { return append(f, "what comes later", []any{1, 2}) }, full},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode(changeEvent(t, Encode(&Events{Jobs: []JobEvents{{Events: []Event{full}}}}), tt.change))
			if err != nil {
				t.Fatal(err)
			}
			if e := got.(*Events).Jobs[0].Events[0]; !reflect.DeepEqual(e, tt.want) {
				t.Errorf("got %+v\nwant %+v", e, tt.want)
			}
		})
	}
}

// changeEvent rewrites the fields of the one event of an encoded Events.
func changeEvent(t *testing.T, b []byte, change func([]any) []any) []byte {
	t.Helper()
	var v any
	if err := msgpack.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	reserved := 0
	var walk func(v any) any
	walk = func(v any) any {
		list, ok := v.([]any)
		if !ok {
			return v
		}
		for i := range list {
			list[i] = walk(list[i])
		}
		if parentAt(list) < 0 {
			return list
		}
		reserved++
		return change(list)
	}
	v = walk(v)
	if reserved != 1 {
		t.Fatalf("%d events with a parent in %x", reserved, b)
	}
	out, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parentAt is the place of the parent among the fields of an event; -1 in other lists.
func parentAt(fields []any) int {
	return slices.IndexFunc(fields, func(v any) bool {
		p, ok := v.([]byte)
		return ok && string(p) == "parent"
	})
}

// The kind of an error is said once.
func TestTaskErrorText(t *testing.T) {
	for _, tt := range []struct {
		kind          ErrorKind
		message, want string
	}{
		{ErrorPanic, "panic: boom", "panic: boom"},
		{ErrorPanic, "fatal error: stack overflow", "panic: fatal error: stack overflow"},
		{ErrorExit, "the command ended with status 3", "exit: the command ended with status 3"},
	} {
		e := &TaskError{Kind: tt.kind, Message: tt.message, Task: "a", Attempt: 1, Agent: "local"}
		if got := e.Text(); got != tt.want {
			t.Errorf("%s: %q is told as %q", tt.kind, tt.message, got)
		}
		if got, want := e.Error(), "task a, attempt 1 on agent local: "+tt.want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
