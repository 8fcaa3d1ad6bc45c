package comms

import "testing"

func TestAttemptNumbers(t *testing.T) {
	const full = uint32(1)<<16 - 1
	for _, c := range []struct {
		what      string
		got, want uint32
	}{
		{"the next try", NextTry(1), 2},
		{"the next try of a grant", NextTry(3<<16 | 7), 3<<16 | 8},
		{"the last try has none behind it", NextTry(3<<16 | LastTry), 3<<16 | LastTry},
		{"the first grant of a task that has begun", NextGrant(1, true), 1<<16 | 2},
		{"the first grant of one that has not", NextGrant(1, false), 1<<16 | 1},
		{"a grant after an unknown try is above it", NextGrant(1<<16|2, true), 2<<16 | 3},
		{"a grant before the third try", NextGrant(1<<16|3, false), 2<<16 | 3},
		{"a grant after the last try", NextGrant(LastTry, true), 1<<16 | LastTry},
		{"a grant when there are no more never runs", NextGrant(full<<16|2, true), full<<16 | LastTry},
		{"nor does one of a task that has not begun", NextGrant(full<<16|2, false), full<<16 | LastTry},
		{"the try of a grant", Try(5<<16 | 6), 6},
		{"an instance of a generator that was given out", Following(5<<16 | 6), 5<<16 | 1},
		{"an instance of one that was not", Following(6), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d.%d, want %d.%d", c.what, c.got>>16, Try(c.got), c.want>>16, Try(c.want))
		}
	}
}
