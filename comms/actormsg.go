package comms

// Messages between a process that has actors and those that call them, over a direct link
// (docs/protocol/actors.md). The link has no replay.
//
// A call is named by the line of calls to which it belongs and its number in it, not by the link: a caller that links
// again sends what is unanswered once more, and the actor answers a repeat from what it keeps.

// ActorCalls makes actors and calls their methods. The calls of one handle come in the order of their numbers.
type ActorCalls struct {
	Items []ActorCall // oldest first
	Got   []ActorGot  // answers that the caller has: they are kept no longer
}

// ActorName names a call.
type ActorName struct {
	Handle uint64 // the line of calls: a random number of its holder; not 0
	Number uint64 // in the line, from 1 on, without gaps
}

// ActorCall is one call of a method, or (Class) the making of an actor.
type ActorCall struct {
	Name   ActorName  // by which its end refers to it
	Actor  uint64     // which actor of the process; numbered by the task that has called the process
	Class  string     // registered name: the actor is made; "" calls a method
	Method string     // registered name; "" with Class
	Args   []Desc     // in the order of the Go parameters, each in the message
	Life   *ActorLife // with Class, of an actor that may be restarted
}

// ActorLife is how an actor lives that may be restarted. One that was has a Number behind which its calls follow.
type ActorLife struct {
	Every uint64      // so many calls: then its state is saved; 0: it is not
	Alone bool        // its methods make no calls: they may run again
	State *ActorState // from which it goes on; nil: from its constructor
}

// ActorState is the state of an actor as its class has saved it.
type ActorState struct{ Bytes []byte }

// ActorGot says which answers a caller has.
type ActorGot struct {
	Handle  uint64
	Through uint64 // all calls of the line up to this number
}

// ActorEnds tells who has called what became of it.
type ActorEnds struct {
	Ends []ActorEnd // oldest first
}

// ActorEnd is the end of a call; of the item that makes an actor, when its constructor has returned;
// or (no Name) of the actor.
type ActorEnd struct {
	Name    ActorName   // of the call; zero: the actor has ended
	Actor   uint64      // without a Name: which
	Outputs []Desc      // what the method returned, in the message
	Error   *TaskError  // it did not end well; of an actor: why it has ended
	State   *ActorState // of the actor behind the call, where it was to be saved
}

// ActorDrop ends actors, lines and calls.
type ActorDrop struct {
	Kill    []uint64    // actors that end at once: their calls that have not ended fail
	Handles []uint64    // lines in which no call follows: an actor ends behind the calls of its last line
	Calls   []ActorName // that are to end
	Why     string      // for people
	Shared  []uint64    // actors to which values refer: they go on without a line until ActorFreed
}

// ActorFreed tells a process of actors to which of them no value refers any more, and no task that has found
// a handle in one.
type ActorFreed struct {
	Run    RunID    // of the process
	Actors []uint64 // by their numbers
}

// Type returns TypeActorCalls.
func (*ActorCalls) Type() Type { return TypeActorCalls }

// Type returns TypeActorEnds.
func (*ActorEnds) Type() Type { return TypeActorEnds }

// Type returns TypeActorDrop.
func (*ActorDrop) Type() Type { return TypeActorDrop }

// Type returns TypeActorFreed.
func (*ActorFreed) Type() Type { return TypeActorFreed }

func (m *ActorCalls) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Slice(c, &m.Items, func(c *Coder, it *ActorCall) { it.code(c) })
		Slice(c, &m.Got, func(c *Coder, g *ActorGot) {
			c.Struct(2, func(c *Coder) {
				Uint(c, &g.Handle)
				Uint(c, &g.Through)
			})
		})
	})
}

// size is about what the message takes encoded.
func (m *ActorCalls) size() int {
	n := 16
	for i := range m.Items {
		n += m.Items[i].Size()
	}
	return n + 16*len(m.Got)
}

// Size is about what the item takes encoded.
func (it *ActorCall) Size() int {
	n := 40 + len(it.Class) + len(it.Method)
	for i := range it.Args {
		n += 64 + len(it.Args[i].Place.Bytes)
	}
	if it.Life != nil {
		n += 8 + it.Life.State.size()
	}
	return n
}

func (n *ActorName) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &n.Handle)
		Uint(c, &n.Number)
	})
}

func (it *ActorCall) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		it.Name.code(c)
		Uint(c, &it.Actor)
		String(c, &it.Class)
		String(c, &it.Method)
		Slice(c, &it.Args, func(c *Coder, d *Desc) { d.code(c) })
		Pointer(c, &it.Life, func(c *Coder, l *ActorLife) { l.code(c) })
	})
}

func (l *ActorLife) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &l.Every)
		c.Bool(&l.Alone)
		Pointer(c, &l.State, func(c *Coder, s *ActorState) { s.code(c) })
	})
}

func (s *ActorState) code(c *Coder) {
	c.Struct(1, func(c *Coder) { c.Bytes(&s.Bytes) })
}

func (s *ActorState) size() int {
	if s == nil {
		return 0
	}
	return 8 + len(s.Bytes)
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
	n := 32
	for i := range e.Outputs {
		n += 64 + len(e.Outputs[i].Place.Bytes)
	}
	if e.Error != nil {
		n += 512 + len(e.Error.Message) + len(e.Error.Stack) + len(e.Error.LogTail)
	}
	return n + e.State.size()
}

func (e *ActorEnd) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		e.Name.code(c)
		Uint(c, &e.Actor)
		Slice(c, &e.Outputs, func(c *Coder, d *Desc) { d.code(c) })
		Pointer(c, &e.Error, func(c *Coder, t *TaskError) { t.code(c) })
		Pointer(c, &e.State, func(c *Coder, s *ActorState) { s.code(c) })
	})
}

func (m *ActorDrop) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Slice(c, &m.Kill, Uint[uint64])
		Slice(c, &m.Handles, Uint[uint64])
		Slice(c, &m.Calls, func(c *Coder, n *ActorName) { n.code(c) })
		String(c, &m.Why)
		Slice(c, &m.Shared, Uint[uint64])
	})
}

func (m *ActorFreed) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Run)
		Slice(c, &m.Actors, Uint[uint64])
	})
}
