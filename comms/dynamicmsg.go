package comms

// Messages by which a run makes tasks. The run is the parent of the tasks that it calls;
// its agent owns them. Everything goes by the parent's own names: CallRef.

// CallRef names a call, or a value that was put, of one parent. A strand is a line of
// execution with a name of its own (a goroutine, an asyncio task); each counts from 0. A
// parent that runs again and does the same gives the same names, and meets what it had begun.
type CallRef struct {
	Strand uint64 // 0 is the strand that the run began with
	Number uint64 // of the call, in the order in which its strand makes them
}

// Compare orders by strand, then by number.
func (r CallRef) Compare(o CallRef) int {
	switch {
	case r.Strand != o.Strand && r.Strand < o.Strand, r.Strand == o.Strand && r.Number < o.Number:
		return -1
	case r == o:
		return 0
	}
	return 1
}

// CallKind is what calls of one function share. A run sends it once, before the first
// call that refers to it.
type CallKind struct {
	ID          uint32    // by which the calls of this run refer to it, from 1
	Function    string    // registered name
	Environment string    // of the caller's graph; "" is the caller's own
	Inputs      []KindIn  // in the order of CallInput.Port
	Outputs     []KindOut // in the order of DatasetRef.Output; without names one is "out"
	Resources   Resources // to be granted while it runs; CPU 0 means the default
	Retries     uint32    // further attempts after an error of the task itself
	RetryOn     []string  // names of the errors after which it is tried again; none: all
	Timeout     int64     // nanoseconds of one attempt; 0 none
	Priority    int64     // higher first, among the calls of one job
	Here        bool      // it stays on the host of its caller
	Stateful    bool      // what its process had is gone with it: when that dies the call fails, and is not tried again
	Graph       []byte    // encoded dag.Graph, with doors, which is run in place of a function; Function is its name then. Empty: a function is called
}

// Calls makes tasks, in order. Inputs that lie in a lease of the executor are sealed as
// with ReportPublished.
type Calls struct {
	Run   RunID      // the parent
	Once  bool       // the parent is not repeatable: another run of it meets nothing that this one made
	Kinds []CallKind // that the calls below are the first to refer to
	Items []CallItem // oldest first
	Refs  []ItemRefs // to what values in Items refer, in the order of those

	Forget uint32 // kinds up to this number, to which no later message of the run refers; 0: none
}

// CallItem is one call, or (Kind 0) a value that is put: then its one input is the value. With Kind 0 and
// an input FromCallValue or FromInputValue it is a reference that the run has found in a value: it ends
// as that call ends to which the reference is, and its output 0 is the dataset. A value with an Actor stands for that one
// of the process to which it refers: handles in values refer to it.
type CallItem struct {
	Ref    CallRef     // its name
	Kind   uint32      // announced before; 0: a value is put, or a reference is read
	Name   string      // for people; "" is the function's
	With   []byte      // msgpack map of parameters
	Inputs []CallInput // by port, those of a list one after another
	Actor  uint64      // number of the actor for which the value stands; 0: for none
}

// CallInput is one dataset that a call reads: a value, an output of an earlier call, or
// an input of the parent. A reference keeps the dataset until the call has ended.
type CallInput struct {
	Port    uint32     // number of the input in the kind; of a reference its place among those of the value
	From    CallSource // which of the fields below say what it reads
	Ref     CallRef    // FromCall, FromCallValue: the call, of the same parent
	Output  uint32     // FromCall, FromCallValue: its output
	Element uint64     // FromCall, FromCallValue: the element, of a stream
	Input   uint32     // FromInput, FromInputValue: number of the parent's input
	Item    uint32     // FromInput, FromInputValue: the place in its list
	Data    Desc       // FromValue: the value; its Hash is that of bytes that are not in the message
}

// CallSource says what a CallInput reads.
type CallSource uint8

// The sources of a CallInput.
const (
	FromValue CallSource = iota // the bytes that Data describes
	FromCall                    // what an earlier call returned, or a value that was put
	FromInput                   // an input of the parent

	FromCallValue  // a reference in what an earlier call returned, or in a value that was put
	FromInputValue // a reference in an input of the parent
)

// Reference is a dataset to which a value refers, by the names of the task that has made the value. The
// bytes of the value have the place of the reference in the list of all of them.
type Reference struct {
	Ref     CallRef // the call, or the value that was put
	Output  uint32  // of the call
	Element uint64  // of a stream
}

// ItemRefs is to what a value in a message of calls refers.
type ItemRefs struct {
	Item  uint32      // its place in Items
	Input uint32      // its place in Inputs
	Refs  []Reference // as the value numbers them
}

// Listed says to what a value refers that a run will publish. It comes before the report of the value:
// what it names stays then as long as the value does, although the run ends.
type Listed struct {
	Run     RunID       // that will publish it
	Output  uint32      // its output
	Element uint64      // the element, of a stream
	Refs    []Reference // as the value numbers them
}

// CallEnds tells a parent, unasked, what became of its calls, in the order in which it
// happened; and answers CallRead.
type CallEnds struct {
	Run  RunID     // the parent
	Ends []CallEnd // oldest first
}

// CallEnd is the end of a call, an element of its stream, or the answer to a CallRead. A
// dataset is in the message (PlaceInline), or must be asked for with CallRead
// (PlaceAgent); in an answer it may lie in shared memory (PlaceSegment), and stays there
// until the run ends or drops the call.
type CallEnd struct {
	Ref     CallRef     // of the call
	Outputs []Desc      // the call's outputs; with Element or Read the one dataset
	Error   *TaskError  // it did not end well; with Read: the dataset cannot be had
	Element bool        // Outputs[0] is an element of a stream, and the call goes on
	Read    bool        // it answers a CallRead
	Counts  []StreamEnd // how many elements its streams have; Task is 0
}

// CallRead asks for a dataset to be in memory, until the run ends or drops the call.
type CallRead struct {
	Run     RunID   // the parent
	Ref     CallRef // the call
	Output  uint32  // its output
	Element uint64  // the element, of a stream
}

// CallWait says that the run waits, and needs no cpu until N of the calls in Refs have
// ended. Without Refs it waits for N items of CallEnds more than the Seen that it has had.
// CallGo answers it. A wait takes the place of one before that is not answered: with N 0 the
// run only wants its cpu, and goes on meanwhile. A CallGo of a wait before the last is
// ignored.
type CallWait struct {
	Run  RunID     // that waits
	Wait uint64    // number of this wait, from 1
	Refs []CallRef // for which; none: for any
	Seen uint64    // items of CallEnds that the run has had
	N    uint64    // how many

	Outside bool // it waits for methods of actors, too, whose calls the agent does not know
}

// CallGo ends a wait: the run has its cpu again. The ends that it waited for were told before.
type CallGo struct {
	Run   RunID      // that waits
	Wait  uint64     // number of the wait
	Error *TaskError // the agent refuses to let it wait
}

// CallDrop says that a run needs the results of calls no more, and (Cancel) that they are
// to end with all that they have called.
type CallDrop struct {
	Run    RunID     // the parent
	Refs   []CallRef // of calls
	Cancel bool      // end them
	Why    string    // with Cancel: the reason, for people
}

// Type returns TypeCalls.
func (*Calls) Type() Type { return TypeCalls }

// Type returns TypeCallEnds.
func (*CallEnds) Type() Type { return TypeCallEnds }

// Type returns TypeCallRead.
func (*CallRead) Type() Type { return TypeCallRead }

// Type returns TypeCallWait.
func (*CallWait) Type() Type { return TypeCallWait }

// Type returns TypeCallGo.
func (*CallGo) Type() Type { return TypeCallGo }

// Type returns TypeCallDrop.
func (*CallDrop) Type() Type { return TypeCallDrop }

// Type returns TypeListed.
func (*Listed) Type() Type { return TypeListed }

// Values returns the values in a call's inputs.
func (it *CallItem) Values() (values []Desc) {
	for i := range it.Inputs {
		if in := &it.Inputs[i]; in.From == FromValue {
			values = append(values, in.Data)
		}
	}
	return values
}

func (r *CallRef) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &r.Strand)
		Uint(c, &r.Number)
	})
}

func (k *CallKind) code(c *Coder) {
	c.Struct(13, func(c *Coder) {
		Uint(c, &k.ID)
		String(c, &k.Function)
		String(c, &k.Environment)
		Slice(c, &k.Inputs, func(c *Coder, in *KindIn) { in.code(c) })
		Slice(c, &k.Outputs, func(c *Coder, o *KindOut) { o.code(c) })
		k.Resources.code(c)
		Uint(c, &k.Retries)
		Slice(c, &k.RetryOn, String[string])
		Int(c, &k.Timeout)
		Int(c, &k.Priority)
		c.Bool(&k.Here)
		c.Bool(&k.Stateful)
		c.Bytes(&k.Graph)
	})
}

func (m *Calls) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &m.Run)
		c.Bool(&m.Once)
		Slice(c, &m.Kinds, func(c *Coder, k *CallKind) { k.code(c) })
		Slice(c, &m.Items, func(c *Coder, it *CallItem) { it.code(c) })
		Slice(c, &m.Refs, func(c *Coder, r *ItemRefs) { r.code(c) })
		Uint(c, &m.Forget)
	})
}

func (r *Reference) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		r.Ref.code(c)
		Uint(c, &r.Output)
		Uint(c, &r.Element)
	})
}

func (r *ItemRefs) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &r.Item)
		Uint(c, &r.Input)
		Slice(c, &r.Refs, func(c *Coder, r *Reference) { r.code(c) })
	})
}

func (m *Listed) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Output)
		Uint(c, &m.Element)
		Slice(c, &m.Refs, func(c *Coder, r *Reference) { r.code(c) })
	})
}

// size is about what the message takes encoded: many calls are one message, which would grow
// again and again.
func (m *Calls) size() int {
	n := 256 * (1 + len(m.Kinds))
	for i := range m.Kinds {
		n += len(m.Kinds[i].Graph)
	}
	for i := range m.Items {
		it := &m.Items[i]
		n += 24 + len(it.Name) + len(it.With)
		for j := range it.Inputs {
			n += 72 + len(it.Inputs[j].Data.Place.Bytes)
		}
	}
	return n
}

func (it *CallItem) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		it.Ref.code(c)
		Uint(c, &it.Kind)
		String(c, &it.Name)
		c.Bytes(&it.With)
		Slice(c, &it.Inputs, func(c *Coder, in *CallInput) { in.code(c) })
		Uint(c, &it.Actor)
	})
}

func (in *CallInput) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		Uint(c, &in.Port)
		Uint(c, &in.From)
		in.Ref.code(c)
		Uint(c, &in.Output)
		Uint(c, &in.Element)
		Uint(c, &in.Input)
		Uint(c, &in.Item)
		in.Data.code(c)
	})
}

func (m *CallEnds) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Run)
		Slice(c, &m.Ends, func(c *Coder, e *CallEnd) { e.code(c) })
	})
}

// size is about what the message takes encoded.
func (m *CallEnds) size() int {
	n := 256
	for i := range m.Ends {
		n += 24
		for j := range m.Ends[i].Outputs {
			n += 64 + len(m.Ends[i].Outputs[j].Place.Bytes)
		}
	}
	return n
}

func (e *CallEnd) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		e.Ref.code(c)
		Slice(c, &e.Outputs, func(c *Coder, d *Desc) { d.code(c) })
		Pointer(c, &e.Error, func(c *Coder, t *TaskError) { t.code(c) })
		c.Bool(&e.Element)
		c.Bool(&e.Read)
		Slice(c, &e.Counts, func(c *Coder, s *StreamEnd) { s.code(c) })
	})
}

func (m *CallRead) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Run)
		m.Ref.code(c)
		Uint(c, &m.Output)
		Uint(c, &m.Element)
	})
}

func (m *CallWait) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Wait)
		Slice(c, &m.Refs, func(c *Coder, r *CallRef) { r.code(c) })
		Uint(c, &m.Seen)
		Uint(c, &m.N)
		c.Bool(&m.Outside)
	})
}

func (m *CallGo) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Wait)
		Pointer(c, &m.Error, func(c *Coder, t *TaskError) { t.code(c) })
	})
}

func (m *CallDrop) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Run)
		Slice(c, &m.Refs, func(c *Coder, r *CallRef) { r.code(c) })
		c.Bool(&m.Cancel)
		String(c, &m.Why)
	})
}
