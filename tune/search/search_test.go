package search_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

// TestVariants repeats the whole grid, and draws anew for each point unless it is told not to.
func TestVariants(t *testing.T) {
	s := space.Space{"a": space.GridSearch(1, 2), "b": space.GridSearch(10, 20, 30), "c": space.Uniform(0, 1)}
	for _, c := range []struct {
		name  string
		v     search.Variants
		want  string
		draws int // different values of c
	}{
		{"twice", search.Variants{Space: s, Samples: 2}, "1,10 2,10 1,20 2,20 1,30 2,30 1,10 2,10 1,20 2,20 1,30 2,30", 12},
		{"one draw for a sample", search.Variants{Space: s, Samples: 2, Constant: true}, "1,10 2,10 1,20 2,20 1,30 2,30 1,10 2,10 1,20 2,20 1,30 2,30", 2},
		{"points in place of samples", search.Variants{Space: s, Samples: 2, Points: []map[string]any{{"a": 1, "b": 20, "c": .5}, {"a": 2}}}, "1,20 2,10 2,20 2,30", 4},
	} {
		var got []string
		draws := map[any]bool{}
		for id := core.ID(0); ; id++ {
			config, err := c.v.Suggest(id)
			if errors.Is(err, search.ErrFinished) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(config["a"], ",", config["b"]))
			draws[config["c"]] = true
		}
		if strings.Join(got, " ") != c.want || len(draws) != c.draws {
			t.Errorf("%s: %v with %d draws, want %s with %d", c.name, got, len(draws), c.want, c.draws)
		}
		if n, err := c.v.Trials(); err != nil || n != len(got) {
			t.Errorf("%s: it says that there are %d trials, %v", c.name, n, err)
		}
	}
	v := search.Variants{Space: s, Points: []map[string]any{{"q/r": 1}}}
	if _, err := v.Suggest(0); err == nil || !strings.Contains(err.Error(), `"q/r"`) {
		t.Errorf("a point with an unknown parameter: %v", err)
	}
}

// heard writes down what a searcher is told.
type heard struct {
	search.Variants
	said []string
}

func (h *heard) Complete(id core.ID, last *core.Result, how core.End) {
	x := math.NaN()
	if last != nil {
		x, _ = last.Value("m")
	}
	h.said = append(h.said, fmt.Sprint(id, " ", how, " ", x))
}

func newHeard() *heard {
	return &heard{Variants: search.Variants{Space: space.Space{"x": space.Uniform(0, 1)}, Samples: -1}}
}

// TestLimiter holds suggestions back until a trial ends.
func TestLimiter(t *testing.T) {
	h := newHeard()
	l := &search.Limiter{Searcher: h, Max: 2}
	if e := search.Answer(l, 0, 3); len(e.Configs) != 2 || e.Cause != core.CauseNotNow {
		t.Errorf("%d suggestions, %q", len(e.Configs), e.Cause)
	}
	l.Complete(1, nil, core.EndError)
	if e := search.Answer(l, 2, 3); len(e.Configs) != 1 || e.Cause != core.CauseNotNow {
		t.Errorf("%d suggestions behind an end, %q", len(e.Configs), e.Cause)
	}
}

// TestRepeater tells its searcher of the mean of the scores that are numbers.
func TestRepeater(t *testing.T) {
	h := newHeard()
	r := &search.Repeater{Searcher: h, Times: 3, Metric: "m"}
	e := search.Answer(r, 0, 4)
	for i, config := range e.Configs {
		if config[search.IndexKey] != int64(i%3) || i < 3 && config["x"] != e.Configs[0]["x"] || i == 3 && config["x"] == e.Configs[0]["x"] {
			t.Errorf("configuration %d is %v", i, config)
		}
	}
	for i, m := range []float64{1, math.NaN(), 3, 7} {
		r.Complete(core.ID(i), &core.Result{Metrics: core.Values{"m": m}}, core.EndDone)
	}
	if got := strings.Join(h.said, "; "); got != "0 done 2" { // the fourth is of a group that is not whole
		t.Errorf("the searcher heard %q", got)
	}
}
