package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestStrandOfAnother refuses what a goroutine calls or puts in the strand of another, whose
// order another run need not have.
func TestStrandOfAnother(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		a := Strand(ctx, "a")
		s.goes(a, "double", 1)
		const refused = "give each goroutine a strand"
		elsewhere := func(name string, ctx context.Context, refuses bool) (err error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err = Put(ctx, 7)
				if refuses == (err != nil && strings.Contains(err.Error(), refused)) {
					err = nil
				} else {
					err = errors.Join(errors.New(name), err)
				}
			}()
			<-done
			return err
		}
		fresh := Strand(ctx, "b")
		return errors.Join(
			elsewhere("the strand of the function", ctx, true),
			elsewhere("the strand of another", a, true),
			elsewhere("a strand below it", Strand(a, "x"), false),
			elsewhere("a strand of its own", fresh, false),
			elsewhere("that, from a third", fresh, true),
			elsewhere("not repeatable", NotRepeatable(ctx), false),
			wantValue(ctx, s.goes(ctx, "double", 1).Output(0), 2))
	})
	items, _ := s.items(5)
	want := []uint64{strandID(0, "a"), strandID(strandID(0, "a"), "x"), strandID(0, "b"), 0, 0}
	for i := range want {
		if items[i].Ref.Strand != want[i] {
			t.Errorf("call %d is %v, want one of strand %x", i, items[i].Ref, want[i])
		}
	}
	s.waits(1)
	s.ends(s.returns(items[4].Ref, 2))
	s.goOn(1)
	s.finish()
}

// BenchmarkStrand measures what the check of a call costs in a goroutine that is not that of the function.
func BenchmarkStrand(b *testing.B) {
	s := &strand{id: 1}
	for b.Loop() {
		if err := s.taken(); err != nil {
			b.Fatal(err)
		}
	}
}
