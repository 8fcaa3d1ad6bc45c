package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A task that calls runs a program: acts that are drawn from one number. Each try of the task
// runs the same one, with the same names for its calls, unless its program is not repeatable. A
// called task runs a program, too, down to a depth. Where a program waits for some of its
// calls, what it does next may depend on which have ended first.

// drawCalls decides how many tasks call others, of a thousand. As drawDrains it
// draws from numbers of its own.
func drawCalls(seed uint64) int {
	return pick(rand.New(rand.NewPCG(seed, 20)), 0, 0, 300, 700)
}

// programFates are what a seed decides of all programs, of a thousand unless it says otherwise.
type programFates struct {
	depth    int // of programs, one below the other
	acts     int // at most, of the program of a task of a graph
	streams  int // calls that generate
	cancels  int // acts that may cancel, and do
	fails    int // calls that fail at their end
	stumbles int // calls whose first try fails
	varies   int // calls that return other bytes each time that they run
	once     int // programs that are not repeatable
	strands  int // calls of a second strand
	timed    int // waits with a time-out
	options  int // calls with options
	refs     int // values that refer to others
	strict   int // acts that end the run when what they read has failed
}

// drawPrograms draws them from numbers of its own.
func (f *fates) drawPrograms(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 40))
	f.programs = programFates{depth: pick(r, 1, 2, 3), acts: pick(r, 4, 8, 8, 14), streams: pick(r, 0, 150, 300), cancels: pick(r, 0, 500, 1000), fails: pick(r, 0, 0, 100, 300),
		stumbles: pick(r, 0, 100), varies: pick(r, 0, 300), once: pick(r, 0, 150), strands: pick(r, 0, 300), timed: pick(r, 0, 500), options: pick(r, 0, 300), strict: pick(r, 0, 300, 1000)}
}

// drawManyPrograms makes most tasks call, in few jobs.
func (f *fates) drawManyPrograms(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 45))
	f.calls, f.jobs = pick(r, 500, 1000), min(f.jobs, 2)
	f.programs.acts = pick(r, 8, 14, 20)
	f.programs.refs = pick(r, 0, 300, 700)
}

// programTamings take one kind of act out of all programs.
func programTamings() []taming {
	return []taming{
		{"call-depth", func(f *fates) { f.programs.depth = 1 }},
		{"call-streams", func(f *fates) { f.programs.streams = 0 }},
		{"call-cancels", func(f *fates) { f.programs.cancels = 0 }},
		{"call-failures", func(f *fates) { f.programs.fails = 0 }},
		{"call-stumbles", func(f *fates) { f.programs.stumbles = 0 }},
		{"call-varies", func(f *fates) { f.programs.varies = 0 }},
		{"call-once", func(f *fates) { f.programs.once = 0 }},
		{"call-strands", func(f *fates) { f.programs.strands = 0 }},
		{"call-times", func(f *fates) { f.programs.timed = 0 }},
		{"call-options", func(f *fates) { f.programs.options = 0 }},
		{"call-references", func(f *fates) { f.programs.refs = 0 }},
		{"call-strictness", func(f *fates) { f.programs.strict = 0 }},
	}
}

// program is what a run does with calls.
type program struct {
	key     uint64 // from which it is drawn
	depth   int    // of programs from here on
	once    bool
	acts    []act
	cancels map[int]bool // the calls that it may cancel, by their acts
	drops   map[int]bool // what it may drop
}

// act is one step of a program.
type act struct {
	id   int // what its program names it by, and what it makes
	what actKind
	of   []int // acts that made what this one is about
	n    int   // how many of them
	args []arg
	flag bool // actCancel: only those that have not ended; actGet: a failure ends the run
	draw uint64

	strand, key uint64
	list        bool // its arguments are one list
}

// actKind says what an act does.
type actKind uint8

const (
	actCall   actKind = iota // calls a function
	actPut                   // puts a value
	actWait                  // waits until n of some calls have ended
	actTimed                 // waits for that, or for a time
	actGet                   // waits for a call and reads what it returned
	actNext                  // waits for the next element of a stream and reads it
	actDrop                  // drops a call, or a value
	actCancel                // cancels calls
)

// arg is an argument of a call.
type arg struct {
	from argKind
	of   int // the act that made it, or that waited
	n    int // its output, or which input of the run
}

type argKind uint8

const (
	argValue   argKind = iota // a value
	argMade                   // what an earlier act made: a value that was put, an output, the last element that was read
	argWinner                 // what that call returns which ended first of those that an act waited for
	argOfInput                // an input of the run
)

// ways is what a called task does: its caller and itself know it by the number of its program.
type ways struct {
	outputs  int
	elements int // of its stream; 0: it has none
	fails    bool
	stumbles bool
	varies   bool
}

func (f *programFates) ways(key uint64) (w ways) {
	r := rand.New(rand.NewPCG(key, 42))
	draw := func(n int) bool { return r.IntN(1000) < n }
	w.outputs = 1 + r.IntN(5)/4
	elements := 1 + r.IntN(5)
	if draw(f.streams) {
		w.outputs, w.elements = 1, elements
	}
	w.fails, w.stumbles, w.varies = draw(f.fails), draw(f.stumbles), draw(f.varies)
	return w
}

// program draws the program of a number, without the acts that are left out and those that need them.
func (w *world) program(key uint64, depth int) *program {
	f := &w.fate.programs
	r := rand.New(rand.NewPCG(key, 43))
	p := &program{key: key, depth: depth, cancels: map[int]bool{}, drops: map[int]bool{}}
	once, n := r.IntN(1000) < f.once, r.IntN(4)
	if depth == f.depth {
		n = 2 + r.IntN(f.acts-1)
	}
	if depth <= 0 || slices.Contains(w.without, p.part()) {
		return p
	}
	p.once = once
	d := drawing{r: r, f: f, p: p}
	for range n {
		d.act()
	}
	if r.IntN(4) > 0 {
		d.rest()
	}
	p.leaveOut(w.without)
	return p
}

// part names a program for -without; a point and the id of an act behind it name that.
func (p *program) part() string { return fmt.Sprintf("calls%d", p.key) }

func (p *program) leaveOut(without []string) {
	gone := map[int]bool{}
	for _, part := range without {
		if id, is := strings.CutPrefix(part, p.part()+"."); is {
			var n int
			if _, err := fmt.Sscan(id, &n); err == nil {
				gone[n] = true
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	p.acts = slices.DeleteFunc(p.acts, func(a act) bool {
		for _, of := range a.args {
			gone[a.id] = gone[a.id] || (of.from == argMade || of.from == argWinner) && gone[of.of]
		}
		return gone[a.id]
	})
}

// ranProgram notes what Shrink may leave out of a program: acts, and all of it.
func (w *world) ranProgram(p *program) {
	if w.ran[p.key] || len(p.acts) == 0 {
		return
	}
	w.ran[p.key] = true
	for i := range p.acts {
		w.runParts = append(w.runParts, fmt.Sprintf("%s.%d", p.part(), p.acts[i].id))
	}
	w.runParts = append(w.runParts, p.part())
}

// drawing makes a program.
type drawing struct {
	r    *rand.Rand
	f    *programFates
	p    *program
	last int
	made []int // acts that made something
	call []int // of those, calls
	wait []int // acts that waited
}

func (d *drawing) chance(n int) bool { return d.r.IntN(1000) < n }

func (d *drawing) add(a act) int {
	d.last++
	a.id, a.draw = d.last, d.r.Uint64()
	d.p.acts = append(d.p.acts, a)
	return d.last
}

// act draws one act. All that is drawn is drawn always, so that what is tamed changes nothing else.
func (d *drawing) act() {
	r := d.r
	kind, some, n, flag := r.IntN(16), d.some(), r.IntN(4), r.IntN(2) == 0
	timed, cancels, strict := d.chance(d.f.timed), d.chance(d.f.cancels), d.chance(d.f.strict)
	switch {
	case kind < 6 || len(d.call) == 0:
		d.addCall()
	case kind == 6:
		d.made = append(d.made, d.add(act{what: actPut}))
	case kind == 7 && timed:
		d.wait = append(d.wait, d.add(act{what: actTimed, of: some, n: 1 + n}))
	case kind == 7 || kind == 8:
		d.wait = append(d.wait, d.add(act{what: actWait, of: some, n: 1 + n}))
	case kind == 9:
		of := pick(r, d.made...)
		d.p.drops[of] = true
		d.add(act{what: actDrop, of: []int{of}})
	case kind == 10 && cancels:
		for _, of := range some {
			d.p.cancels[of] = true
		}
		d.add(act{what: actCancel, of: some, flag: flag})
	case kind < 13:
		d.add(act{what: actNext, of: []int{pick(r, d.call...)}})
	default:
		d.add(act{what: actGet, of: []int{pick(r, d.call...)}, flag: strict})
	}
}

// some chooses calls.
func (d *drawing) some() (of []int) {
	for _, c := range d.call {
		if d.r.IntN(2) == 0 {
			of = append(of, c)
		}
	}
	return of
}

func (d *drawing) addCall() {
	r := d.r
	a := act{what: actCall, list: r.IntN(4) == 0, key: r.Uint64()}
	if d.chance(d.f.strands) {
		a.strand = 7
	}
	for range 1 + r.IntN(8)/5 {
		g := arg{n: r.IntN(4)}
		from, made := r.IntN(10), r.Uint64()
		switch {
		case from < 4 && len(d.made) > 0:
			g.from, g.of = argMade, d.made[made%uint64(len(d.made))]
		case from == 4 && len(d.wait) > 0:
			g.from, g.of = argWinner, d.wait[made%uint64(len(d.wait))]
		case from > 6:
			g.from = argOfInput
		}
		a.args = append(a.args, g)
	}
	id := d.add(a)
	d.made, d.call = append(d.made, id), append(d.call, id)
}

// rest waits for all that was called, and reads it.
func (d *drawing) rest() {
	all := slices.Clone(d.call)
	d.add(act{what: actWait, of: all, n: len(all)})
	for _, c := range all {
		d.add(act{what: actGet, of: []int{c}, flag: d.chance(d.f.strict)})
	}
}

// options are those of a call, the same in each try of its caller; limits tells whether it may have a time-out.
func (a *act) options(f *programFates, w *ways, limits bool) (k comms.CallKind, name string) {
	r := rand.New(rand.NewPCG(a.draw, 44))
	retries, cpu, here, priority, named, limit := r.IntN(3), pick(r, int64(0), 500), r.IntN(4) == 0, r.Int64N(3), r.IntN(3) == 0, r.IntN(4) == 0
	if r.IntN(1000) < f.options {
		k = comms.CallKind{Retries: uint32(retries), Resources: comms.Resources{CPU: cpu}, Here: here, Priority: priority}
		if limit && limits {
			k.Timeout = int64(50 * time.Millisecond)
		}
		if named {
			name = "named"
		}
	}
	if w.stumbles {
		k.Retries = max(k.Retries, 1)
	}
	k.Function = callee
	for i := range a.args {
		if i == 0 || !a.list {
			k.Inputs = append(k.Inputs, comms.KindIn{Name: fmt.Sprintf("in%d", i), List: a.list})
		}
	}
	for o := range w.outputs {
		out := comms.KindOut{Name: fmt.Sprintf("o%d", o)}
		if w.elements > 0 {
			out.Generate = dag.GenerateOpen
		}
		k.Outputs = append(k.Outputs, out)
	}
	return k, name
}

// with are the parameters of a called task: the number of its program, how deep that may call, and
// what its inputs must be.
type with struct {
	key    uint64
	depth  int
	inputs uint64
	life   uint64 // of its caller: it may run again in another
}

func (p with) encode() []byte {
	b := append(binary.BigEndian.AppendUint64(nil, p.key), byte(p.depth))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, p.inputs), p.life)
}

func readWith(b []byte) (p with, err error) {
	if len(b) != 25 {
		return p, fmt.Errorf("the parameters of a called task are %d bytes", len(b))
	}
	return with{binary.BigEndian.Uint64(b), int(b[8]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:])}, nil
}

// The serial model: what a called task returns follows from its program and its inputs, whoever
// runs it and however often. Words that vary are the same in front of a mark.

// sumOf names what a called task returns.
func sumOf(key, inputs uint64) uint64 { return hashOf(key, inputs) }

// wordOfCall is one dataset of that.
func wordOfCall(sum uint64, output uint32, element uint64) string {
	return fmt.Sprintf("c%d.%d[%d]", sum, output, element)
}

// variesFrom begins what is different each time in a word.
const variesFrom = "~"

func steady(word string) string {
	if i := strings.IndexAny(word, variesFrom+refersFrom); i >= 0 {
		return word[:i]
	}
	return word
}

// sumOfWords sums what inputs must be, in order.
func sumOfWords(words []string) uint64 {
	all := []any{}
	for _, w := range words {
		all = append(all, steady(w))
	}
	return hashOf(all...)
}

func hashOf(of ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, of...)
	return h.Sum64()
}
