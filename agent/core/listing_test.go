package core

import (
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
)

// listed asks for references in pages of so many rows.
func listed(t *testing.T, c *Core, q comms.Query) (rows []comms.ReferenceRow) {
	for {
		page, err := c.referencePage(&q)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Rows {
			var row comms.ReferenceRow
			if err := msgpack.Unmarshal(b, &row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		if q.Cursor = page.Cursor; q.Cursor == nil {
			return rows
		}
	}
}

// References are listed with what holds them, page by page as at once; what nothing holds is not listed.
func TestReferencesAreListed(t *testing.T) {
	s := newChain(t)
	put := func(n uint64, refs ...comms.ItemRefs) {
		value := comms.Desc{Codec: "raw", Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte{byte(n)}}}
		s.do(FromExecutor{1, &comms.Calls{Run: 1, Once: true, Items: []comms.CallItem{{Ref: comms.CallRef{Number: n}, Inputs: []comms.CallInput{{Data: value}}}}, Refs: refs}})
	}
	for n := range uint64(4) {
		put(n)
	}
	put(4, comms.ItemRefs{Refs: []comms.Reference{{Ref: comms.CallRef{Number: 1}}, {Ref: comms.CallRef{Number: 2}}}})
	s.do(FromExecutor{1, &comms.CallDrop{Run: 1, Refs: []comms.CallRef{{Number: 0}, {Number: 1}}}})
	var got []string
	all := listed(t, s.c, comms.Query{Kind: comms.QueryReferences})
	for _, r := range all {
		got = append(got, r.Name+" "+r.Owner+": "+r.Holders)
	}
	want := []string{"t/1 chain t: 1 value", "t/2 chain t: parent, 1 value", "t/3 chain t: parent", "t/4 chain t: parent"}
	if !slices.Equal(want, got) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	if paged := listed(t, s.c, comms.Query{Kind: comms.QueryReferences, Limit: 1}); !slices.Equal(all, paged) {
		t.Errorf("in pages of one row: %+v, at once: %+v", paged, all)
	}
	if rows := listed(t, s.c, comms.Query{Kind: comms.QueryReferences, Job: comms.JobID{77}}); len(rows) > 0 {
		t.Errorf("another job has %d references", len(rows))
	}
	for _, q := range []comms.Query{{Kind: comms.QueryJobs}, {Kind: comms.QueryReferences, Cursor: []byte{1}}} {
		if _, err := s.c.referencePage(&q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}
