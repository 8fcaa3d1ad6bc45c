package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestTwoDeaths has a second process of an actor die before it says that the actor is made: the third gets one making, and
// the same calls.
func TestTwoDeaths(t *testing.T) {
	for _, row := range []struct {
		name     string
		delivery Delivery
		answered uint64 // calls, of five; 1 is the making
		want     string // numbers that each process gets
	}{
		{"at most once", AtMostOnce, 3, "*5"},
		{"at least once", AtLeastOnce, 3, "*3 4 5"},
		{"at least once, not made", AtLeastOnce, 0, "*1 2 3 4 5"},
		{"at least once, all answered", AtLeastOnce, 5, "*5"},
		{"exactly once", ExactlyOnce, 3, "*1 2 3 4 5"},
	} {
		for _, unsent := range []bool{false, true} {
			a := &actorState{last: 5, lives: actorLives{ActorLife: ActorLife{Restarts: 3, Delivery: row.delivery}}}
			for n := uint64(1); n <= a.last; n++ {
				m := &actorCall{actor: a, item: comms.ActorCall{Name: comms.ActorName{Number: n}}}
				if n == 1 {
					m.item.Class = "Purse"
				}
				a.lives.sends(&m.item)
				if n > row.answered {
					a.open.Set(n, m)
				}
			}
			a.restart(false)
			for death := range 2 {
				var got []string
				for n, m := range a.open.All() {
					got = append(got, fmt.Sprint(n))
					if m.item.Class != "" {
						got[len(got)-1] = fmt.Sprintf("*%d", n)
					}
				}
				slices.SortFunc(got, func(x, y string) int { return strings.Compare(strings.TrimLeft(x, "*"), strings.TrimLeft(y, "*")) })
				if strings.Join(got, " ") != row.want {
					t.Errorf("%s, death %d: the next process gets %q, want %s", row.name, death+1, got, row.want)
				}
				a.restart(unsent)
			}
		}
	}
}
