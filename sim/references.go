package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// Values of programs refer to calls and to values that were put: what a called task returns, what a
// program puts, and the arguments that it gives. The word of such a value has in it, behind a mark, what each of its references
// must yield, as numbers of a list that the world has: the model of whoever finds one.

// refersFrom begins the numbers of references in a word.
const refersFrom = "&"

// referred is what a reference must yield.
type referred struct {
	word  string // of the dataset, without what varies
	fails bool   // its task fails
	limit bool   // its task has a time-out
}

// referTo numbers what a reference must yield.
func (w *world) referTo(to referred) int {
	i := slices.Index(w.referred, to)
	if i < 0 {
		i, w.referred = len(w.referred), append(w.referred, to)
	}
	return i
}

// refersTo reads the numbers in a word.
func refersTo(word string) (ids []int) {
	_, text, _ := strings.Cut(word, refersFrom)
	for _, n := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		if id, err := strconv.Atoi(n); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// refer draws to what a value refers, of what the program has made and found so far: its references, and what they add to its word.
func (x *executor) refer(of ...any) (refs []comms.Reference, suffix string) {
	c := &x.calls
	if c.prog == nil {
		return nil, ""
	}
	r := rand.New(rand.NewPCG(hashOf(append(of, c.prog.key)...), 46))
	if r.IntN(1000) >= x.w.fate.programs.refs {
		return nil, ""
	}
	var all []*callVar
	for i := range c.prog.acts {
		if v := c.there(c.prog.acts[i].id); v != nil && v.ways.elements == 0 {
			all = append(all, v)
		}
	}
	for _, v := range c.borrowed {
		if !v.dropped {
			all = append(all, v)
		}
	}
	var ids []string
	for range min(1+r.IntN(3), len(all)) {
		v := all[r.IntN(len(all))]
		to, ref := v.to, comms.Reference{Ref: v.ref}
		switch {
		case v.borrowed:
		case v.act.what == actPut:
			to = referred{word: steady(v.word)}
		default:
			ref.Output = uint32(r.IntN(v.ways.outputs))
			to = referred{wordOfCall(v.sum, ref.Output, 0), v.ways.fails, v.limit}
		}
		refs, ids = append(refs, ref), append(ids, fmt.Sprint(x.w.referTo(to)))
	}
	if len(refs) == 0 {
		return nil, ""
	}
	return refs, refersFrom + strings.Join(ids, ",")
}

// borrowedStrand is that of the references which a program has found.
const borrowedStrand = 99

// finds has the program borrow some of the references in a value that it has read.
func (x *executor) finds(word string, in comms.CallInput) {
	c := &x.calls
	for place, id := range refersTo(word) {
		if c.prog == nil || hashOf(c.prog.key, id, place)%3 == 0 || len(c.borrowed) > 12 {
			continue
		}
		in.Port = uint32(place)
		v := &callVar{act: &act{id: -1, what: actCall}, ref: c.number(borrowedStrand), ways: ways{outputs: 1}, borrowed: true, to: x.w.referred[id],
			asked: map[comms.DatasetRef]*comms.CallEnd{}}
		if v.request = hashOf(in.Input, in.Item, place); in.From == comms.FromCallValue {
			v.request = hashOf(c.refs[in.Ref].request, in.Output, in.Element, place)
		}
		c.refs[v.ref] = v
		c.borrowed = append(c.borrowed, v)
		x.send(&comms.Calls{Run: x.cur.ID, Once: c.prog.once, Items: []comms.CallItem{{Ref: v.ref, Inputs: []comms.CallInput{in}}}})
	}
}

// findsInputs looks for references in the inputs of the run.
func (x *executor) findsInputs() {
	for i, in := range x.cur.Inputs {
		for item := range in.Data {
			x.finds(x.wordAt(&in.Data[item]), comms.CallInput{From: comms.FromInputValue, Input: uint32(i), Item: uint32(item)})
		}
	}
}

// endsBorrowed waits for what was found, reads it, or drops it. It tells whether there is something to do.
func (x *executor) endsBorrowed() bool {
	c := &x.calls
	if c.ends >= len(c.borrowed) {
		return false
	}
	v, run := c.borrowed[c.ends], x.cur
	if hashOf(c.prog.key, v.ref.Number)%4 == 0 {
		v.dropped = true
		x.send(&comms.CallDrop{Run: x.cur.ID, Refs: []comms.CallRef{v.ref}})
	} else if !x.getCall(&act{what: actGet}, v) {
		return true
	}
	if x.cur == run {
		c.ends++
	}
	return true
}

// wrongBorrowed says what the model does not allow of the end of that for which a reference stands.
func (x *executor) wrongBorrowed(v *callVar, e *comms.CallEnd) string {
	f := &x.w.drawn
	crashes := f.executorCrashes+f.executorHangs+f.linkBreaks+f.freezes+f.cuts+f.outages+f.agentCrashes+f.oneWay > 0
	switch {
	case v.end != nil:
		return "something has become of it: it has ended before"
	case e.Error == nil && v.to.fails:
		return "it has ended well: the program of that to which it refers fails"
	case e.Error == nil && len(e.Outputs) != 1:
		return fmt.Sprintf("it has %d datasets", len(e.Outputs))
	case e.Error == nil:
		return ""
	}
	ok := false
	switch e.Error.Kind {
	case comms.ErrorTask:
		own := strings.HasPrefix(e.Error.Message, "what it called") || strings.HasPrefix(e.Error.Message, "it may not wait")
		ok = e.Error.Message == onPurpose && v.to.fails || e.Error.Message == badLuck && f.taskFails > 0 || own
	case comms.ErrorCancelled:
		ok = f.programs.cancels > 0 || crashes || strings.Contains(e.Error.Message, "the task that called it has ended") // and this run is about to be told so
	case comms.ErrorInput:
		ok = true
	case comms.ErrorPoison:
		ok = crashes
	case comms.ErrorStore, comms.ErrorMemory:
		// A run whose caller has ended is told to end, and then that its references have been let go.
		ok = f.segment > 0 || crashes || f.drains > 0 || x.cancel != nil
	case comms.ErrorSetup:
		ok = f.spawnFails > 0 || f.far > 0 || strings.Contains(e.Error.Message, "the tasks that wait for calls")
	case comms.ErrorTimeout:
		ok = v.to.limit
	}
	if !ok {
		return fmt.Sprintf("it has failed for no cause: %s: %s", e.Error.Kind, e.Error.Message)
	}
	return ""
}
