package core

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// borrowedStrand is the strand of references that were found in values.
const borrowedStrand = 9

// references runs the commands of scripts that concern references in values.
func (s *script) references(cmd string, w []string, named map[string]string) string {
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
