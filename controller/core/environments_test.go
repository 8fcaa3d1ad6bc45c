package core

import "testing"

// Of more environments than are remembered those count that were built last.
func TestBuildsLearnOn(t *testing.T) {
	c := New(Config{})
	for id := uint64(1); id <= maxBuilds; id++ {
		c.learnBuild(id, 10)
	}
	c.learnBuild(1, 20)           // built again
	c.learnBuild(maxBuilds+1, 30) // one more
	for id, want := range map[uint64]float64{1: 20, 2: 0, 3: 10, maxBuilds: 10, maxBuilds + 1: 30} {
		if got := c.builds[id]; got != want {
			t.Errorf("environment %d took %v s, want %v", id, got, want)
		}
	}
	if len(c.builds) != maxBuilds || len(c.learned) != maxBuilds {
		t.Errorf("%d times in an order of %d are remembered, want %d", len(c.builds), len(c.learned), maxBuilds)
	}
}
