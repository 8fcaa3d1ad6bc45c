package executor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// CallOptions is what a call may say besides its arguments.
type CallOptions struct {
	Resources dag.Resources
	Retries   int           // further attempts after an error of the function
	RetryOn   []error       // after which it is tried again, each registered; none: all
	Timeout   time.Duration // of one attempt; 0: none
	Priority  int           // higher first, among the calls of one job
	Name      string        // for people; "" is none
	Here      bool          // it stays on the host of its caller
	Stateful  bool          // what its process had is gone with it: it is not tried again

	Environment string // of the job in which the function is; "" is the caller's own

	Err error // an option that does not fit a call
}

// plain tells whether a call says nothing that makes it of another kind.
func (o *CallOptions) plain() bool {
	r := &o.Resources
	return o.Retries == 0 && len(o.RetryOn) == 0 && o.Timeout == 0 && o.Priority == 0 && !o.Here && !o.Stateful && o.Environment == "" &&
		r.CPU == 0 && r.Memory == 0 && r.GPU == 0 && r.GPUMemory == 0 && len(r.Custom) == 0
}

// callKind returns the number of a kind of calls. A kind that is new goes with the next batch.
func (r *run) callKind(c *calls, fn *Func, o *CallOptions) (uint32, error) {
	codes := make([]string, len(o.RetryOn))
	for i, e := range o.RetryOn {
		code, ok := r.exec.reg.codeOf(e)
		if !ok {
			return 0, fmt.Errorf("it is to be tried again after %w, which is not registered (RegisterError)", e)
		}
		codes[i] = code
	}
	key := fn.Name
	if !o.plain() {
		key = fmt.Sprintf("%s %+v %v %d %v %d %v %v %s", fn.Name, o.Resources, codes, o.Retries, o.Timeout, o.Priority, o.Here, o.Stateful, o.Environment)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.kinds[key]; id != 0 {
		return id, nil
	}
	k := comms.CallKind{Function: fn.Name, Environment: o.Environment, Retries: uint32(max(o.Retries, 0)), RetryOn: codes, Timeout: int64(o.Timeout), Priority: int64(o.Priority), Here: o.Here, Stateful: o.Stateful}
	var err error
	if k.Resources, err = needs(o.Resources); err != nil {
		return 0, err
	}
	for _, p := range fn.Inputs {
		k.Inputs = append(k.Inputs, comms.KindIn{Name: p.Name, List: p.List != nil})
	}
	for _, p := range fn.Outputs {
		out := comms.KindOut{Name: p.Name}
		if fn.Seq != nil {
			out.Generate = dag.GenerateOpen
		}
		k.Outputs = append(k.Outputs, out)
	}
	return c.newKind(key, k), nil
}

// mostKinds is how many kinds of calls a run keeps, and its agent for it. Beyond it forgets them, and announces anew which it needs.
const mostKinds = 4096

// newKind numbers a kind, which goes with the next batch. mu and the run's making are held: between that and its call
// no other kind can be forgotten.
func (c *calls) newKind(key string, k comms.CallKind) uint32 {
	if len(c.kinds) >= mostKinds {
		clear(c.kinds)
		c.batch.Forget = c.kind
	}
	c.kind++
	k.ID = c.kind
	c.kinds[key] = k.ID
	c.batch.Kinds = append(c.batch.Kinds, k)
	return k.ID
}

// errDeviceMemory is of a call for which memory of devices was asked.
var errDeviceMemory = errors.New("a call cannot ask for memory of devices (GPUMemory): make it a task of the job, or ask for the whole device (GPU)")

// needs is what a call needs, as a message has it.
func needs(r dag.Resources) (m comms.Resources, err error) {
	if r.GPUMemory != 0 {
		return m, errDeviceMemory
	}
	m = comms.Resources{CPU: r.CPU, Memory: r.Memory, GPU: r.GPU}
	for _, name := range slices.Sorted(maps.Keys(r.Custom)) {
		m.Custom = append(m.Custom, comms.Amount{Name: name, N: r.Custom[name]})
	}
	return m, nil
}
