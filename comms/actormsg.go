package comms

// Messages between a process that has actors and those that call them, over a direct link
// (docs/protocol/actors.md). The link has no replay: its end is the end of all that is open on it.

// ActorCalls makes actors and calls their methods, in order: an actor runs the calls of one link
// in the order in which they come.
type ActorCalls struct {
	Items []ActorCall // oldest first
}

// ActorCall is one call of a method, or (Class) the making of an actor.
type ActorCall struct {
	Number uint64 // of this item on its link, by which its end refers to it; never used again
	Actor  uint64 // which actor; numbered by who makes it
	Class  string // registered name: the actor is made; "" calls a method
	Method string // registered name; "" with Class
	Args   []Desc // in the order of the Go parameters, each in the message
}

// ActorEnds tells who has called what became of it.
type ActorEnds struct {
	Ends []ActorEnd // oldest first
}

// ActorEnd is the end of a call; of the item that makes an actor, when its constructor has returned;
// or (Number 0) of the actor.
type ActorEnd struct {
	Number  uint64     // of the call; 0: the actor has ended
	Actor   uint64     // with Number 0: which
	Outputs []Desc     // what the method returned, in the message
	Error   *TaskError // it did not end well; of an actor: why it has ended
}

// ActorDrop ends actors and calls.
type ActorDrop struct {
	Actors []uint64 // no handle is left: they end behind the calls that came before; with Kill at once
	Kill   bool     // the calls that have not ended fail
	Calls  []uint64 // numbers of calls that are to end
	Why    string   // for people
}

// Type returns TypeActorCalls.
func (*ActorCalls) Type() Type { return TypeActorCalls }

// Type returns TypeActorEnds.
func (*ActorEnds) Type() Type { return TypeActorEnds }

// Type returns TypeActorDrop.
func (*ActorDrop) Type() Type { return TypeActorDrop }

func (m *ActorCalls) code(c *Coder) {
	c.Struct(1, func(c *Coder) {
		Slice(c, &m.Items, func(c *Coder, it *ActorCall) { it.code(c) })
	})
}

// size is about what the message takes encoded.
func (m *ActorCalls) size() int {
	n := 16
	for i := range m.Items {
		n += m.Items[i].Size()
	}
	return n
}

// Size is about what the item takes encoded.
func (it *ActorCall) Size() int {
	n := 32 + len(it.Class) + len(it.Method)
	for i := range it.Args {
		n += 64 + len(it.Args[i].Place.Bytes)
	}
	return n
}

func (it *ActorCall) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Uint(c, &it.Number)
		Uint(c, &it.Actor)
		String(c, &it.Class)
		String(c, &it.Method)
		Slice(c, &it.Args, func(c *Coder, d *Desc) { d.code(c) })
	})
}

func (m *ActorEnds) code(c *Coder) {
	c.Struct(1, func(c *Coder) {
		Slice(c, &m.Ends, func(c *Coder, e *ActorEnd) { e.code(c) })
	})
}

// size is about what the message takes encoded.
func (m *ActorEnds) size() int {
	n := 16
	for i := range m.Ends {
		n += m.Ends[i].Size()
	}
	return n
}

// Size is about what the end takes encoded.
func (e *ActorEnd) Size() int {
	n := 24
	for i := range e.Outputs {
		n += 64 + len(e.Outputs[i].Place.Bytes)
	}
	if e.Error != nil {
		n += 512 + len(e.Error.Message) + len(e.Error.Stack) + len(e.Error.LogTail)
	}
	return n
}

func (e *ActorEnd) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &e.Number)
		Uint(c, &e.Actor)
		Slice(c, &e.Outputs, func(c *Coder, d *Desc) { d.code(c) })
		Pointer(c, &e.Error, func(c *Coder, t *TaskError) { t.code(c) })
	})
}

func (m *ActorDrop) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Slice(c, &m.Actors, Uint[uint64])
		c.Bool(&m.Kill)
		Slice(c, &m.Calls, Uint[uint64])
		String(c, &m.Why)
	})
}
