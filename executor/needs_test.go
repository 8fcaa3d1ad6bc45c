package executor

import (
	"errors"
	"reflect"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A message of a call cannot say what memory devices must have: then the call is not made.
func TestNeedsOfCalls(t *testing.T) {
	r := dag.Resources{CPU: 500, GPU: 1000, Custom: map[string]int64{"b": 2, "a": 1}}
	got, err := needs(r)
	if want := (comms.Resources{CPU: 500, GPU: 1000, Custom: []comms.Amount{{Name: "a", N: 1}, {Name: "b", N: 2}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	r.GPUMemory = 1
	if _, err := needs(r); !errors.Is(err, errDeviceMemory) {
		t.Errorf("with memory of devices: %v", err)
	}
}
