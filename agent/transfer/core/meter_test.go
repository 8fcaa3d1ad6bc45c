package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// What is told of flows: each line of a script is a time in milliseconds, an agent,
// and what happens to a piece of so many KiB: it is asked for, comes, or is given up.
func TestFlows(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"one piece", `
			0 a asks 100
			5 a comes 100`,
			"a 100 in 1, 5ms, beside 0 of 0.0"},
		{"pieces of several copies without a break are one flow", `
			0 a asks 100
			1 a asks 100
			4 a comes 100
			4 a asks 50
			9 a comes 100
			10 a comes 50`,
			"a 250 in 3, 10ms, beside 0 of 0.0"},
		{"nothing is owed in between: two flows", `
			0 a asks 100
			5 a comes 100
			50 a asks 100
			57 a comes 100`,
			"a 100 in 1, 5ms, beside 0 of 0.0; a 100 in 1, 7ms, beside 0 of 0.0"},
		{"another comes half of the time", `
			0 a asks 100
			0 a asks 100
			0 b asks 300
			10 b comes 300
			20 a comes 100
			20 a comes 100`,
			"b 300 in 1, 10ms, beside 0 of 1.0; a 200 in 2, 20ms, beside 300 of 0.5"},
		{"a long one is told each second, and goes on", `
			0 a asks 100
			0 a asks 100
			900 a comes 100
			900 a asks 100
			1100 a comes 100
			1300 a comes 100`,
			"a 200 in 2, 1.1s, beside 0 of 0.0; a 100 in 1, 200ms, beside 0 of 0.0"},
		{"who sends nothing more tells nothing", `
			0 a asks 100
			0 a asks 100
			5 a comes 100
			900 a gives 100
			950 a asks 100
			960 a comes 100`,
			"a 100 in 1, 10ms, beside 0 of 0.0"},
	} {
		var m meter
		flows := map[string]*flow{"a": {}, "b": {}}
		for line := range strings.Lines(strings.TrimSpace(c.script)) {
			var ms, kib int
			var agent, what string
			if _, err := fmt.Sscan(line, &ms, &agent, &what, &kib); err != nil {
				t.Fatalf("%s: %q: %v", c.name, line, err)
			}
			switch f, now := flows[agent], time.Duration(ms)*time.Millisecond; what {
			case "asks":
				m.owes(f, now)
			case "comes":
				m.arrived(f, agent, uint64(kib), now)
			default:
				m.givenUp(f, now)
			}
		}
		var got []string
		for _, f := range m.take() {
			got = append(got, fmt.Sprintf("%s %d in %d, %v, beside %d of %.1f", f.From, f.Bytes, f.Pieces, time.Duration(f.Nanos), f.Beside, f.Others))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
		}
		if m.owing != 0 || m.take() != nil {
			t.Errorf("%s: %d agents owe something", c.name, m.owing)
		}
	}
}

// Flows that nobody asks for are bounded, the last stay.
func TestFlowsAreBounded(t *testing.T) {
	var m meter
	for i := range 3 * maxFlows {
		m.add(comms.Flow{Bytes: uint64(i)})
	}
	if all := m.take(); len(all) != maxFlows || all[maxFlows-1].Bytes != 3*maxFlows-1 {
		t.Errorf("%d flows, the last of %d bytes", len(all), all[len(all)-1].Bytes)
	}
}

// The end of a pull tells the flow that brought it.
func TestDoneTellsFlows(t *testing.T) {
	w := newWorld(t, func(int) int { return 0 }, Config{Chunk: 4}, "origin", "a")
	w.offer("origin", copyNo(1), 10)
	w.pull("a", copyNo(1), 10, "origin")
	for w.nodes["a"].done[copyNo(1)] == nil {
		w.now += time.Millisecond
		w.next()
	}
	all := w.nodes["a"].flows
	if len(all) != 1 || all[0].From != "origin" || all[0].Bytes != 10 || all[0].Pieces != 3 || all[0].Nanos == 0 {
		t.Errorf("%+v", all)
	}
}
