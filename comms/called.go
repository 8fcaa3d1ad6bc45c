package comms

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// Called is a called task, as the event of its end tells of it. The task that made it is the
// event's Parent.
type Called struct {
	Ref      CallRef // its parent's name of it
	Name     string  // that its parent gave it for people; "" none
	Function string  // that it ran
	Host     string  // the agent on which it ran; "" that of the event
	Made     int64   // when it was called: wall-clock nanoseconds
	Reads    []byte  // what it read by reference: columns, see AppendEdges
	Kind     []byte  // what calls of its kind share, see AppendCallKind; none of older agents
	Record   []byte  // its parameters, arguments and results, as far as they are recorded, see AppendRecord; none of older agents
	Order    uint64  // it is the Order-th of the calls of its parent that ended; 0 when it has run once more after its end was told
	Met      uint64  // how many of its own calls had ended when its last try began to call: those were told when that made the same calls
}

// CallEdge is one dataset that a called task reads by reference.
type CallEdge struct {
	Port    uint32     // number of its input
	From    CallSource // FromCall or FromInput
	Ref     CallRef    // FromCall: the call or value, of the same parent
	Output  uint32     // FromCall: its output; FromInput: number of the parent's input
	Element uint64     // FromCall: the element, of a stream; FromInput: the place in the list
}

// AppendEdges encodes what a call reads by reference behind b, for Called.Reads: of very many
// the first MaxSteps. Nothing is appended when it reads values alone.
func AppendEdges(b []byte, in []CallInput) []byte {
	var most [8]CallEdge
	edges := most[:0]
	for i := range in {
		if e := (CallEdge{Port: in[i].Port, From: in[i].From, Ref: in[i].Ref, Output: in[i].Output, Element: in[i].Element}); len(edges) < MaxSteps {
			switch e.From {
			case FromInput:
				e.Ref, e.Output, e.Element = CallRef{}, in[i].Input, uint64(in[i].Item)
			case FromCall:
			default:
				continue
			}
			edges = append(edges, e)
		}
	}
	n := len(edges)
	if n == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = appendColumn(b, n, func(i int) uint64 { return uint64(edges[i].Port) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(edges[i].From) })
	b = appendColumn(b, n, func(i int) uint64 { return edges[i].Ref.Strand })
	b = appendColumn(b, n, func(i int) uint64 { return edges[i].Ref.Number })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(edges[i].Output) })
	return appendColumn(b, n, func(i int) uint64 { return edges[i].Element })
}

// ReadEdges decodes what AppendEdges writes; no bytes are no edges.
func ReadEdges(b []byte) ([]CallEdge, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := columnReader{b: b}
	n := r.count()
	edges := make([]CallEdge, n)
	r.column(n, func(i int, v uint64) { edges[i].Port = uint32(v) })
	r.column(n, func(i int, v uint64) { edges[i].From = CallSource(v) })
	r.column(n, func(i int, v uint64) { edges[i].Ref.Strand = v })
	r.column(n, func(i int, v uint64) { edges[i].Ref.Number = v })
	r.column(n, func(i int, v uint64) { edges[i].Output = uint32(v) })
	r.column(n, func(i int, v uint64) { edges[i].Element = v })
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("what a called task read: %w", err)
	}
	return edges, nil
}

// AppendCallName appends the name of a task: that of its parent with its place behind it, and
// between them the name that its parent gave it.
func AppendCallName(b, parent []byte, name string, ref CallRef) []byte {
	b = append(append(b, parent...), '/')
	if name != "" {
		b = append(append(b, name...), '-')
	}
	if ref.Strand != 0 {
		b = append(hex.AppendEncode(b, binary.BigEndian.AppendUint64(make([]byte, 0, 8), ref.Strand)[:4]), '.')
	}
	return strconv.AppendUint(b, ref.Number, 10)
}

// CallName is the name of the task whose end an EventCall tells.
func (e *Event) CallName() string {
	if e.Called == nil {
		return ""
	}
	return string(AppendCallName(make([]byte, 0, 64), e.Parent, e.Called.Name, e.Called.Ref))
}

// CallText says for people which task an EventCall is of.
func (e *Event) CallText() string {
	switch {
	case e.Called == nil: // of an older agent
		return e.Cause.Text
	case e.Called.Host == "":
		return e.CallName() + " " + e.Called.Function
	}
	return e.CallName() + " " + e.Called.Function + " on " + e.Called.Host
}

// called codes the called tasks that some events are of. Where none is, and in blocks of older
// senders, the block ends before.
func (k *block) called(e []Event) {
	if k.read && len(k.r.b) == 0 {
		return
	}
	some := make([]*Event, 0, len(e))
	for i := range e {
		if e[i].Called != nil {
			some = append(some, &e[i])
		}
	}
	if !k.read && len(some) == 0 {
		return
	}
	has, n := k.lengths(len(e), func(i int) int {
		if e[i].Called == nil {
			return 0
		}
		return 1
	}, 1)
	if k.read {
		own := make([]Called, n)
		for i, l := range has {
			if l > 0 {
				e[i].Called, own = &own[0], own[1:]
				some = append(some, &e[i])
			}
		}
	}
	pieces(k, n, func(i int) *[]byte { return &some[i].Parent })
	integers(k, n, func(i int) *uint64 { return &some[i].Count })
	integers(k, n, func(i int) *uint64 { return &some[i].Called.Ref.Strand })
	integers(k, n, func(i int) *uint64 { return &some[i].Called.Ref.Number })
	words(k, n, func(i int) *string { return &some[i].Called.Name })
	words(k, n, func(i int) *string { return &some[i].Called.Function })
	words(k, n, func(i int) *string { return &some[i].Called.Host })
	before := make([]uint64, n)
	if !k.read {
		for i := range n {
			before[i] = zigzag(some[i].At - some[i].Called.Made)
		}
	}
	integers(k, n, func(i int) *uint64 { return &before[i] })
	if k.read {
		for i := range n {
			some[i].Called.Made = some[i].At - unzigzag(before[i])
		}
	}
	pieces(k, n, func(i int) *[]byte { return &some[i].Called.Reads })
	if k.read && len(k.r.b) == 0 {
		return
	}
	few(k, n, func(i int) *[]byte { return &some[i].Called.Kind })
	pieces(k, n, func(i int) *[]byte { return &some[i].Called.Record })
	integers(k, n, func(i int) *uint64 { return &some[i].Called.Order })
	integers(k, n, func(i int) *uint64 { return &some[i].Called.Met })
}

// few codes texts of which there are few different ones: these, and which of them each entry has.
func few(k *block, n int, at func(i int) *[]byte) {
	which := make([]uint64, n)
	var texts [][]byte
	if !k.read {
		last := uint64(0)
		for i := range n {
			b := *at(i)
			if len(texts) == 0 || !bytes.Equal(texts[last], b) {
				have := slices.IndexFunc(texts, func(t []byte) bool { return bytes.Equal(t, b) })
				if last = uint64(have); have < 0 {
					last = uint64(len(texts))
					texts = append(texts, b)
				}
			}
			which[i] = last
		}
	}
	if m := k.count(len(texts)); k.read {
		texts = make([][]byte, m)
	}
	pieces(k, len(texts), func(i int) *[]byte { return &texts[i] })
	integers(k, n, func(i int) *uint64 { return &which[i] })
	if !k.read {
		return
	}
	for i := range n {
		if which[i] >= uint64(len(texts)) {
			k.r.fail()
			return
		}
		*at(i) = texts[which[i]]
	}
}

func (t *Called) code(c *Coder) {
	c.Struct(10, func(c *Coder) {
		t.Ref.code(c)
		String(c, &t.Name)
		String(c, &t.Function)
		String(c, &t.Host)
		Int(c, &t.Made)
		c.Bytes(&t.Reads)
		c.Bytes(&t.Kind)
		c.Bytes(&t.Record)
		Uint(c, &t.Order)
		Uint(c, &t.Met)
	})
}
