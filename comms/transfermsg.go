package comms

// Messages between agents that move datasets, on links of their own. The fetching
// agent dials and asks; it chooses Transfer, which names the transfer in every
// message on any of its links to the same agent.

// WantHow says how the sender of a Want is to be served.
type WantHow uint8

// The ways to be served.
const (
	WantJoin   WantHow = iota + 1 // by the receiver, or by an agent that it names
	WantIfFree                    // by the receiver if it has a place to spare; else it refuses
	WantMust                      // by the receiver, whatever else it does
)

// Want asks to be served a dataset. The answer is Serve, or Reply with the reason
// for a refusal. A Want with the number of an earlier one replaces it.
type Want struct {
	Transfer uint64    // names the transfer
	Data     DatasetID // the dataset
	Attempt  uint32    // that made the copy; bytes of two attempts are never mixed
	Size     uint64    // bytes that the sender expects
	How      WantHow   // by whom
	At       string    // address where the sender serves others meanwhile; empty: it serves none
	Lost     []string  // agents that the receiver had named and that failed the sender
	First    uint64    // offset of a first Pull, so that a small dataset takes one round trip
	Bytes    uint64    // bytes of it; 0: none
}

// Serve answers Want: pull from its sender, or ask the named agent for the dataset.
type Serve struct {
	Transfer uint64 // as wanted
	Agent    string // that serves; empty: the sender
	At       string // its address
}

// Pull asks for bytes. It is answered by one Piece as soon as they are there,
// which may be later than a next Pull is answered.
type Pull struct {
	Transfer uint64 // as wanted
	Offset   uint64 // of the first byte
	Bytes    uint64 // at least 1, at most the body that the sender takes
}

// Piece answers Pull; the bytes are the message's body frame.
type Piece struct {
	Transfer uint64 // as wanted
	Offset   uint64 // of the body's first byte
	Sum      uint64 // xxh3-64 of the body; 0: not computed, the link is TLS
}

// Leave ends a transfer: pulled bytes that are not sent yet are not sent. A receiver
// that has all bytes and serves them on says Kept.
type Leave struct {
	Transfer uint64 // as wanted
	Kept     bool   // the sender has the whole dataset and serves it
}

// Type returns TypeWant.
func (*Want) Type() Type { return TypeWant }

// Type returns TypeServe.
func (*Serve) Type() Type { return TypeServe }

// Type returns TypePull.
func (*Pull) Type() Type { return TypePull }

// Type returns TypePiece.
func (*Piece) Type() Type { return TypePiece }

// Type returns TypeLeave.
func (*Leave) Type() Type { return TypeLeave }

func (m *Want) code(c *Coder) {
	c.Struct(9, func(c *Coder) {
		Uint(c, &m.Transfer)
		c.Struct(2, func(c *Coder) {
			c.ID((*[16]byte)(&m.Data.Job))
			m.Data.DatasetRef.code(c)
		})
		Uint(c, &m.Attempt)
		Uint(c, &m.Size)
		Uint(c, &m.How)
		String(c, &m.At)
		Slice(c, &m.Lost, String[string])
		Uint(c, &m.First)
		Uint(c, &m.Bytes)
	})
}

func (m *Serve) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Transfer)
		String(c, &m.Agent)
		String(c, &m.At)
	})
}

func (m *Pull) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Transfer)
		Uint(c, &m.Offset)
		Uint(c, &m.Bytes)
	})
}

func (m *Piece) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Transfer)
		Uint(c, &m.Offset)
		Uint(c, &m.Sum)
	})
}

func (m *Leave) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Transfer)
		c.Bool(&m.Kept)
	})
}
