package core

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// borrowedStrand is the strand of references that were found in values.
const borrowedStrand = 9

// references runs the commands of scripts that concern references in values.
func (s *script) references(cmd string, w []string, named map[string]string) string {
	if cmd == "open" { // the calls that have not ended, as a client is told of them
		var out strings.Builder
		for _, j := range s.c.dynamicJobs(comms.JobID{}, comms.JobID{}) {
			for t := range taskIndex(j.dyn.rows.n) {
				at := rowRef{j, t}
				if w := at.row(); w.shape == nil || j.at(t).state.over() {
					continue
				}
				r := s.c.referenceRow(at)
				fmt.Fprintf(&out, "%s %s on %q for %gs, waits for %q\n", r.Name, r.State, r.Host, r.Ran, r.Waits)
			}
		}
		return out.String()
	}
	if cmd == "tables" { // what is kept
		rows := 0
		for _, j := range s.c.jobs {
			if j.dyn != nil {
				rows += j.dyn.kept
			}
		}
		lists, held := 0, 0
		for _, all := range s.c.refs.lists {
			lists += len(all)
		}
		for _, all := range s.c.refs.holds {
			held += len(all)
		}
		return fmt.Sprintf("%d jobs, %d rows, %d lists, %d rows held, %d loans\n", len(s.c.jobs), rows, lists, held, len(s.c.loans))
	}
	ex, run := comms.ExecutorID(number(w[0])), comms.RunID(number(named["run"]))
	if cmd == "listed" { // refs=(NUMBER ...): to what the value refers that the run will publish
		return s.step(FromExecutor{ex, &comms.Listed{Run: run, Output: uint32(number(orZero(named["output"]))), Refs: refsOf(named["refs"])}})
	}
	// borrow: the reference at place=P of call of=NUMBER, or of input=NUMBER of the run
	in := comms.CallInput{Port: uint32(number(orZero(named["place"]))), From: comms.FromInputValue, Input: uint32(number(orZero(named["input"])))}
	switch {
	case named["of"] != "":
		in.From, in.Ref = comms.FromCallValue, comms.CallRef{Number: uint64(number(named["of"]))}
	case named["of-borrowed"] != "":
		in.From, in.Ref = comms.FromCallValue, comms.CallRef{Strand: borrowedStrand, Number: uint64(number(named["of-borrowed"]))}
	}
	return s.step(FromExecutor{ex, &comms.Calls{Run: run, Items: []comms.CallItem{{Ref: comms.CallRef{Strand: borrowedStrand, Number: uint64(number(orZero(named["number"])))}, Inputs: []comms.CallInput{in}}}}})
}

func orZero(n string) string { return cmp.Or(n, "0") }

// refsOf reads the numbers of calls to which a value refers; bN is that of a reference that was found in a value.
func refsOf(text string) (refs []comms.Reference) {
	for _, n := range strings.Fields(text) {
		ref := comms.CallRef{}
		if b, ok := strings.CutPrefix(n, "b"); ok {
			ref.Strand, n = borrowedStrand, b
		}
		ref.Number = uint64(number(n))
		refs = append(refs, comms.Reference{Ref: ref})
	}
	return refs
}

func itemRefs(named map[string]string) []comms.ItemRefs {
	if named["refs"] == "" {
		return nil
	}
	return []comms.ItemRefs{{Refs: refsOf(named["refs"])}}
}

// Programs that store futures and read them leave nothing behind: neither rows nor lists nor bytes.
func TestReferencesAreFreed(t *testing.T) {
	s := newChain(t)
	send := func(it comms.CallItem, refs ...comms.ItemRefs) {
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Once: true, Items: []comms.CallItem{it}, Refs: refs}})
	}
	drop := func(refs ...comms.CallRef) { s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: refs}}) }
	k := comms.CallKind{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}}}
	value := comms.Desc{Codec: "raw", Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("v")}}
	for n := range uint64(tier.Rounds(1000, 10_000)) {
		call, put, found, again := comms.CallRef{Number: n}, comms.CallRef{Strand: 1, Number: n}, comms.CallRef{Strand: borrowedStrand, Number: 2 * n}, comms.CallRef{Strand: borrowedStrand, Number: 2*n + 1}
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Once: true, Kinds: []comms.CallKind{k}, Items: []comms.CallItem{{Ref: call, Kind: 1, Inputs: []comms.CallInput{{Data: value}}}}}})
		send(comms.CallItem{Ref: put, Inputs: []comms.CallInput{{Data: value}}}, comms.ItemRefs{Refs: []comms.Reference{{Ref: call}}})
		drop(call)
		send(comms.CallItem{Ref: found, Inputs: []comms.CallInput{{From: comms.FromCallValue, Ref: put}}})
		if n%2 == 0 {
			send(comms.CallItem{Ref: again, Inputs: []comms.CallInput{{From: comms.FromCallValue, Ref: put}}})
			s.do(FromExecutor{1, &comms.CallRead{Run: 1, Ref: again}})
			drop(again)
		}
		drop(put)
		s.do(FromExecutor{1, &comms.CallRead{Run: 1, Ref: found}})
		drop(found)
	}
	if err := s.c.Check(); err != nil {
		t.Fatal(err)
	}
	if n := len(s.c.refs.lists) + len(s.c.refs.holds) + len(s.c.refs.loose) + len(s.c.refs.remotes) + len(s.c.refs.open) + len(s.c.loans); n > 0 {
		t.Errorf("%d entries of tables are left: %+v", n, s.c.refs)
	}
	for _, j := range s.c.jobs {
		if j.dyn != nil && j.dyn.kept+len(j.data) > 0 {
			t.Errorf("%d rows and %d datasets are left", j.dyn.kept, len(j.data))
		}
	}
}
