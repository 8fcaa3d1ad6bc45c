package comms

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// Entries that are much alike travel as one entry of their list, a block of columns that
// stands for them all (docs/protocol/encoding.md, "Blocks"). Blocks are the codec's own:
// callers that encode or decode a list see each entry.

const (
	blockLeast = 4       // entries from which on a block takes less than they do
	blockShape = 8       // dimensions of an array in a block, at most
	blockMost  = 1 << 15 // entries that one message may have in blocks, with their parts
)

// block writes or reads columns, each listed once for both.
type block struct {
	b    []byte // writing
	read bool
	r    columnReader
	most int // entries that may still be made room for, when reading
}

// room takes n entries out of what the message may have.
func (k *block) room(n int) bool {
	if k.most -= n; k.most < 0 {
		k.r.fail()
	}
	return !k.r.bad
}

// count codes how many entries follow.
func (k *block) count(n int) int {
	if !k.read {
		k.b = binary.AppendUvarint(k.b, uint64(n))
		return n
	}
	if n = k.r.count(); !k.room(n) {
		return 0
	}
	return n
}

func integers[T ~uint8 | ~uint32 | ~uint64 | ~int64](k *block, n int, at func(i int) *T) {
	if !k.read {
		k.b = appendColumn(k.b, n, func(i int) uint64 { return uint64(*at(i)) })
		return
	}
	k.r.fill(n, func(i int, v uint64) {
		*at(i) = T(v)
		if uint64(T(v)) != v {
			k.r.fail()
		}
	})
}

func words[T ~string](k *block, n int, at func(i int) *T) {
	if !k.read {
		k.b = appendTexts(k.b, n, func(i int) string { return string(*at(i)) })
		return
	}
	k.r.texts(n, func(from, to int, t []byte) {
		for s := T(t); from < to && len(t) > 0; from++ {
			*at(from) = s
		}
	})
}

// pieces codes bytes; when reading, they alias the message.
func pieces(k *block, n int, at func(i int) *[]byte) {
	if !k.read {
		k.b = appendTexts(k.b, n, func(i int) string { return view(*at(i)) })
		return
	}
	k.r.texts(n, func(from, to int, t []byte) {
		for ; from < to && len(t) > 0; from++ {
			*at(from) = t
		}
	})
}

// lengths codes how many parts each entry has, and returns their sum.
func (k *block) lengths(n int, at func(i int) int, most uint64) ([]int, int) {
	if !k.read {
		sum := 0
		k.b = appendColumn(k.b, n, func(i int) uint64 { return uint64(at(i)) })
		for i := range n {
			sum += at(i)
		}
		return nil, sum
	}
	all, sum := make([]int, n), uint64(0)
	k.r.fill(n, func(i int, v uint64) {
		if v > most {
			k.r.fail()
			return
		}
		all[i] = int(v)
		sum += v
	})
	if k.r.bad || sum > math.MaxInt32 || !k.room(int(sum)) {
		k.r.fail()
		return nil, 0
	}
	return all, int(sum)
}

// parts codes lists that entries have: their lengths, then all parts as one list.
func parts[T any](k *block, n int, of func(i int) *[]T, most uint64, code func(k *block, n int, at func(i int) *T)) {
	all, sum := k.lengths(n, func(i int) int { return len(*of(i)) }, most)
	if k.read {
		own := make([]T, sum)
		for i, l := range all {
			if l > 0 {
				*of(i), own = own[:l:l], own[l:]
			}
		}
	}
	if sum == 0 {
		return
	}
	flat := make([]*T, 0, sum)
	for i := range n {
		list := *of(i)
		for j := range list {
			flat = append(flat, &list[j])
		}
	}
	code(k, len(flat), func(i int) *T { return flat[i] })
}

// descs codes descriptors, without their number.
func descs(k *block, n int, at func(i int) *Desc) {
	integers(k, n, func(i int) *dag.TaskIndex { return &at(i).Ref.Task })
	integers(k, n, func(i int) *uint32 { return &at(i).Ref.Output })
	integers(k, n, func(i int) *uint64 { return &at(i).Ref.Element })
	integers(k, n, func(i int) *uint32 { return &at(i).Attempt })
	words(k, n, func(i int) *string { return &at(i).Codec })
	words(k, n, func(i int) *string { return &at(i).DType })
	parts(k, n, func(i int) *[]uint64 { return &at(i).Shape }, blockShape, integers[uint64])
	integers(k, n, func(i int) *uint64 { return &at(i).Size })
	words(k, n, func(i int) *Hash { return &at(i).Hash })
	integers(k, n, func(i int) *PlaceKind { return &at(i).Place.Kind })
	pieces(k, n, func(i int) *[]byte { return &at(i).Place.Bytes })
	integers(k, n, func(i int) *uint32 { return &at(i).Place.Segment })
	integers(k, n, func(i int) *uint64 { return &at(i).Place.Offset })
	integers(k, n, func(i int) *RunID { return &at(i).Place.Run })
	words(k, n, func(i int) *string { return &at(i).Place.Where })
}

// plain tells whether descriptors and a usage fit into a block.
func plain(d []Desc, u *Usage) bool {
	if u != nil && (u.Duration < 0 || u.CPU < 0 || u.Device != nil) {
		return false
	}
	for i := range d {
		if len(d[i].Shape) > blockShape {
			return false
		}
	}
	return len(d) <= MaxSteps
}

// costs codes the usages that some entries have.
func costs(k *block, n int, of func(i int) **Usage) {
	all, sum := k.lengths(n, func(i int) int {
		if *of(i) == nil {
			return 0
		}
		return 1
	}, 1)
	if k.read {
		own := make([]Usage, sum)
		for i, l := range all {
			if l > 0 {
				*of(i), own = &own[0], own[1:]
			}
		}
	}
	have := make([]*Usage, 0, sum)
	for i := range n {
		if u := *of(i); u != nil {
			have = append(have, u)
		}
	}
	if k.read {
		k.r.usages(sum, func(i int) *Usage { return have[i] })
	} else {
		k.b = appendUsages(k.b, sum, func(i int) *Usage { return have[i] })
	}
}

// times codes when entries happened: those with a usage by how long after its end.
func times(k *block, n int, usage func(i int) *Usage, at func(i int) *int64) {
	before, diffs := int64(0), make([]uint64, n)
	if !k.read {
		for i := range n {
			if u := usage(i); u != nil {
				before = u.Start + u.Duration
			}
			diffs[i] = zigzag(*at(i) - before)
			before = *at(i)
		}
		k.b = appendColumn(k.b, n, func(i int) uint64 { return diffs[i] })
		return
	}
	k.r.fill(n, func(i int, v uint64) { diffs[i] = v })
	for i := range n {
		if u := usage(i); u != nil {
			before = u.Start + u.Duration
		}
		before += unzigzag(diffs[i])
		*at(i) = before
	}
}

// events codes events of many tasks.
func (k *block) events(e []Event) {
	n := len(e)
	integers(k, n, func(i int) *EventKind { return &e[i].Kind })
	integers(k, n, func(i int) *dag.TaskIndex { return &e[i].Task })
	integers(k, n, func(i int) *uint32 { return &e[i].Attempt })
	integers(k, n, func(i int) *ExecutorID { return &e[i].Executor })
	integers(k, n, func(i int) *CauseKind { return &e[i].Cause.Kind })
	integers(k, n, func(i int) *dag.TaskIndex { return &e[i].Cause.Ref.Task })
	integers(k, n, func(i int) *uint32 { return &e[i].Cause.Ref.Output })
	integers(k, n, func(i int) *uint64 { return &e[i].Cause.Ref.Element })
	integers(k, n, func(i int) *uint64 { return &e[i].Cause.Number })
	costs(k, n, func(i int) **Usage { return &e[i].Usage })
	times(k, n, func(i int) *Usage { return e[i].Usage }, func(i int) *int64 { return &e[i].At })
	parts(k, n, func(i int) *[]Desc { return &e[i].Outputs }, MaxSteps, descs)
	k.called(e)
}

// blocky tells whether an event fits into a block.
func (e *Event) blocky() bool {
	return e.Kind != EventSteps && e.Kind != EventBlock && e.Error == nil && e.Cause.Text == "" && e.Output == 0 && e.Sequence == 0 &&
		(e.Called != nil || e.Count == 0 && len(e.Parent) == 0) && len(e.Actor)+len(e.Steps) == 0 && plain(e.Outputs, e.Usage)
}

// items codes happenings of many runs.
func (k *block) items(it []ReportItem) {
	n := len(it)
	integers(k, n, func(i int) *ReportKind { return &it[i].Kind })
	integers(k, n, func(i int) *RunID { return &it[i].Run })
	costs(k, n, func(i int) **Usage { return &it[i].Usage })
	times(k, n, func(i int) *Usage { return it[i].Usage }, func(i int) *int64 { return &it[i].At })
	parts(k, n, func(i int) *[]Desc { return &it[i].Outputs }, MaxSteps, descs)
}

func (i *ReportItem) blocky() bool {
	return i.Kind != ReportBlock && i.Error == nil && i.Lease == nil && len(i.Counts)+len(i.Steps) == 0 && plain(i.Outputs, i.Usage)
}

// runs codes runs that no placeholder of a command makes different.
func (k *block) runs(r []Run) {
	n := len(r)
	integers(k, n, func(i int) *RunID { return &r[i].ID })
	integers(k, n, func(i int) *uint32 { return &r[i].Kind })
	integers(k, n, func(i int) *dag.TaskIndex { return &r[i].Task })
	integers(k, n, func(i int) *uint32 { return &r[i].Attempt })
	words(k, n, func(i int) *string { return &r[i].Name })
	pieces(k, n, func(i int) *[]byte { return &r[i].With })
	parts(k, n, func(i int) *[]uint32 { return &r[i].Live }, MaxSteps, integers[uint32])
	parts(k, n, func(i int) *[]uint32 { return &r[i].Private }, MaxSteps, integers[uint32])
	parts(k, n, func(i int) *[]RunInput { return &r[i].Inputs }, MaxSteps, func(k *block, n int, at func(i int) *RunInput) {
		parts(k, n, func(i int) *[]Desc { return &at(i).Data }, MaxSteps, descs)
	})
}

func (r *Run) blocky() bool {
	for i := range r.Inputs {
		if !plain(r.Inputs[i].Data, nil) {
			return false
		}
	}
	return r.ID != 0 && r.Command == nil && len(r.Env)+len(r.Skip)+len(r.Steps) == 0 && max(len(r.Inputs), len(r.Live), len(r.Private)) <= MaxSteps
}

func (e *Event) standFor(b []byte)      { e.Kind, e.Steps = EventBlock, b }
func (i *ReportItem) standFor(b []byte) { i.Kind, i.Steps = ReportBlock, b }
func (r *Run) standFor(b []byte)        { r.Steps = b }

func (e *Event) stands() *[]byte {
	if e.Kind == EventBlock {
		return &e.Steps
	}
	return nil
}

func (i *ReportItem) stands() *[]byte {
	if i.Kind == ReportBlock {
		return &i.Steps
	}
	return nil
}

func (r *Run) stands() *[]byte {
	if r.ID == 0 && r.Kind == 0 && len(r.Steps) > 0 {
		return &r.Steps
	}
	return nil
}

// weight is how many entries of all kinds a block of one takes.
func (e *Event) weight() int      { return 4 + len(e.Outputs) + shapes(e.Outputs) }
func (i *ReportItem) weight() int { return 2 + len(i.Outputs) + shapes(i.Outputs) }
func (r *Run) weight() int {
	n := 1 + len(r.Live) + len(r.Private) + len(r.Inputs)
	for i := range r.Inputs {
		n += len(r.Inputs[i].Data) + shapes(r.Inputs[i].Data)
	}
	return n
}

func shapes(d []Desc) (n int) {
	for i := range d {
		n += len(d[i].Shape)
	}
	return n
}

// blockEntry is an entry of a list that may be in a block, or stand for one.
type blockEntry[T any] interface {
	*T
	blocky() bool
	weight() int
	code(*Coder)
	stands() *[]byte // the bytes of the block that it stands for; nil when it stands for itself
	standFor([]byte)
}

// blocks codes a list some of whose entries are in blocks.
func blocks[T any, P blockEntry[T]](c *Coder, list *[]T, columns func(*block, []T)) {
	if !c.read {
		all := *list
		if len(all) >= blockLeast {
			all = fold[T, P](c, all, columns)
		}
		Slice(c, &all, func(c *Coder, e *T) { P(e).code(c) })
		return
	}
	Slice(c, list, func(c *Coder, e *T) { P(e).code(c) })
	for i := range *list {
		if P(&(*list)[i]).stands() != nil {
			*list = unfold[T, P](c, *list, i, columns)
			return
		}
	}
}

// fold puts entries that follow each other and fit into blocks.
func fold[T any, P blockEntry[T]](c *Coder, all []T, columns func(*block, []T)) []T {
	var out []T
	kept := 0 // of all: those before are in out
	flush := func(from, to int) {
		if to-from < blockLeast {
			return
		}
		out = append(out, all[kept:from]...)
		kept = to
		k := &block{b: make([]byte, 0, 64+32*(to-from))}
		k.count(to - from)
		columns(k, all[from:to])
		var e T
		P(&e).standFor(k.b)
		out = append(out, e)
	}
	from, heavy := 0, c.folded
	for i := range all {
		e := P(&all[i])
		w := e.weight()
		if fits := e.blocky() && heavy+w <= blockMost; !fits || i-from == MaxSteps {
			flush(from, i)
			if from = i; !fits {
				from = i + 1
				continue
			}
		}
		heavy += w
	}
	flush(from, len(all))
	c.folded = heavy
	if kept == 0 { // none fits: they are not copied
		return all
	}
	return append(out, all[kept:]...)
}

// unfold replaces entries, from the first that stands for a block on.
func unfold[T any, P blockEntry[T]](c *Coder, all []T, first int, columns func(*block, []T)) []T {
	out := all[:first:first]
	for i := first; i < len(all) && c.in.Err == nil; i++ {
		b := P(&all[i]).stands()
		if b == nil {
			out = append(out, all[i])
			continue
		}
		k := &block{read: true, r: columnReader{b: *b}, most: blockMost - c.folded}
		n := k.count(0)
		at := len(out)
		out = slices.Grow(out, n+len(all)-i-1)[:at+n]
		clear(out[at:])
		columns(k, out[at:])
		c.folded = blockMost - k.most
		nested := false
		for e := range out[at:] {
			nested = nested || P(&out[at+e]).stands() != nil
		}
		if k.r.end() != nil || nested {
			c.in.Fail(ErrMalformed)
		}
	}
	return out
}
