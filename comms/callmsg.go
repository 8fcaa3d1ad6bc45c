package comms

// Messages by which a run calls a function as a task of its own.

// Call has a function run as a task of its own, in the environment of the run that
// calls it. Its name is the caller's with the number behind it, so that a caller
// that runs again meets the same calls: a completed one with equal contents is not
// repeated. Inputs that lie in a lease of the executor are sealed as with
// ReportPublished.
type Call struct {
	Run       RunID     // that calls
	Number    uint64    // of the call, from 0 in the order in which a run makes them
	Function  string    // registered name
	With      []byte    // msgpack map of parameters
	Inputs    []CallIn  // by name
	Output    string    // name of the function's output
	Resources Resources // to be granted while it runs; CPU 0 means the default
}

// CallIn is one input of a Call: a value, the result of an earlier call, or an input
// of the caller.
type CallIn struct {
	Name  string // as the function names it
	Call  uint64 // 1 + the number of an earlier call of the same run; 0 none
	Input uint64 // 1 + the place of an input of the run, which is one dataset; 0 none
	Data  Desc   // else the value; its Hash is that of bytes that are not in the message
}

// Await asks for the result of a call. Until the answer the run needs no cpu.
type Await struct {
	Run    RunID  // that called
	Number uint64 // of the call
}

// Returned answers Await. The dataset stays in memory until the run has ended.
type Returned struct {
	Run    RunID      // that called
	Number uint64     // of the call
	Data   Desc       // the function's result
	Error  *TaskError // it failed; none when it did not
}

// Values returns the inputs of a call that are values.
func (m *Call) Values() (values []Desc) {
	for i := range m.Inputs {
		if in := &m.Inputs[i]; in.Call == 0 && in.Input == 0 {
			values = append(values, in.Data)
		}
	}
	return values
}

// Type returns TypeCall.
func (*Call) Type() Type { return TypeCall }

// Type returns TypeAwait.
func (*Await) Type() Type { return TypeAwait }

// Type returns TypeReturned.
func (*Returned) Type() Type { return TypeReturned }

func (m *Call) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Number)
		String(c, &m.Function)
		c.Bytes(&m.With)
		Slice(c, &m.Inputs, func(c *Coder, in *CallIn) { in.code(c) })
		String(c, &m.Output)
		m.Resources.code(c)
	})
}

func (in *CallIn) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		String(c, &in.Name)
		Uint(c, &in.Call)
		Uint(c, &in.Input)
		in.Data.code(c)
	})
}

func (m *Await) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Number)
	})
}

func (m *Returned) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Number)
		m.Data.code(c)
		Pointer(c, &m.Error, func(c *Coder, e *TaskError) { e.code(c) })
	})
}
