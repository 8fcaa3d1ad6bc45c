package comms_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// TestParameters reads parameters as an executor does, to which the types of the job file come.
func TestParameters(t *testing.T) {
	long := map[string]any{}
	for i := range 20 {
		long[strings.Repeat("k", i+1)] = int64(i)
	}
	for name, c := range map[string]struct{ value, want any }{
		"nothing":       {nil, nil},
		"yes":           {true, true},
		"no":            {false, false},
		"small":         {int64(7), int64(7)},
		"negative":      {int64(-1 << 62), int64(-1 << 62)},
		"int":           {7, int64(7)},
		"float":         {0.25, 0.25},
		"whole float":   {2.0, 2.0},
		"text":          {"ä", "ä"},
		"longer text":   {strings.Repeat("x", 200), strings.Repeat("x", 200)},
		"long text":     {strings.Repeat("x", 70_000), strings.Repeat("x", 70_000)},
		"list":          {[]any{int64(1), "a", []any{}}, []any{int64(1), "a", []any{}}},
		"map":           {map[string]any{"b": int64(1), "a": map[string]any{}}, map[string]any{"b": int64(1), "a": map[string]any{}}},
		"long map":      {long, long},
		"anything else": {time.Minute, "1m0s"},
	} {
		b := comms.AppendParameters([]byte("before"), []dag.Field{{Name: "x", Value: c.value}, {Name: "y", Value: int64(1)}})
		var got map[string]any
		if err := msgpack.Unmarshal(b[len("before"):], &got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if want := map[string]any{"x": c.want, "y": int64(1)}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", name, got, want)
		}
		if again := comms.AppendParameters([]byte("before"), []dag.Field{{Name: "x", Value: c.value}, {Name: "y", Value: int64(1)}}); string(again) != string(b) {
			t.Errorf("%s: equal parameters are other bytes", name)
		}
	}
}
