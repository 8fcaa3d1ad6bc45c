//go:build linux

package python_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// The process of a task is killed when its calls have returned. The task runs again,
// makes the same calls, and gets what they returned: each has run once.
func TestCallerDies(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: dies
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  dies: {run: "py:calling.dies_once", with: {n: 3, mark: %q}, out: [counted]}
outputs: [dies.counted]
`, filepath.Join(t.TempDir(), "mark")))
	const want = "dies.counted = [1,1,1]\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// So does a task that puts values, passes results on and reads a series.
func TestCallerOfValuesDies(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: dies
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  dies: {run: "py:futures.dies_once", with: {n: 100000, mark: %q}, out: [said]}
outputs: [dies.said]
`, filepath.Join(t.TempDir(), "mark")))
	const want = "dies.said = [[1,99999],[1,100000],[100000,99999,14],1]\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A task that says that it does other things each time makes its calls anew.
func TestCallsAnew(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: anew
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  dies: {run: "py:futures.dies_anew", with: {mark: %q}, out: [said]}
outputs: [dies.said]
`, filepath.Join(t.TempDir(), "mark")))
	const want = "dies.said = [2,0]\n"
	if got := outcome(t, c, job); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An input that is passed on to two calls reaches both, in the first try, also when the task
// before has left it in the process and not in the store: most of these chains do.
func TestPassedOnTwice(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	job := submitText(t, c, "testdata/job", []byte(`job: twice
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  ramp: {for: {i: "0..7"}, run: "py:calling.ramp", with: {n: 1000}, out: [x]}
  twice: {for: {i: "0..7"}, run: "py:calling.passed_on_twice", in: {x: "ramp[${i}].x"}, out: [seen]}
outputs: ["twice[*].seen"]
`))
	var want strings.Builder
	for i := range 8 {
		fmt.Fprintf(&want, "twice[%d].seen = [2,3,1]\n", i)
	}
	if got := outcome(t, c, job); got != want.String() {
		t.Errorf("got %s, want %s", got, want.String())
	}
}

// Futures come to what they stand for: waited for in several ways, put, passed on, dropped.
func TestFutures(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t, cascade.WithCPU(8)) // some wait for a file, which takes a core
	for _, test := range []struct {
		function string
		n        int
		want     string
	}{
		{"arguments", 4, `[12,114,[0,2,4,6,114],"call futures.double: it takes 1 arguments by place, and got 2: give others by name","call futures.double: argument x is given twice","futures.double does not yield: it has one result"]`},
		{"burst", 300, `89700`},
		{"many", 3000, `8997000`},
		{"order", 3, `[[false,false,false],[0,3],[2,2],[1,1],[0,0],[2,1,0],"1 of 4 calls have not ended within 0.02 s"]`},
		{"timeouts", 3, `["the result of futures.until: it has not ended within 0.02 s","get: 1 of 1 calls have not ended within 0.02 s",8,3,true]`},
		{"failures", 3, `["futures.fails: ValueError: no good","ValueError","futures.until: it takes too long",2,0,true]`},
		{"values", 100000, `[99999,false,{"a":[1,2]},true,[49999.5,49999.5,49999.5]]`},
		{"series", 4, `[[0,1,4,9],[[0,100000],[1,100000],[4,100000],[9,100000]],4,[0,1,4,9],[[0,1,4,9],[1,1,1,1],[true,true],9],"argument x is the future of a series: pass list(future.elements())"]`},
		{"options", 2, `[[2,2],"futures.fails_first: LookupError: the first time","futures.fails_first: LookupError: the first time","futures.until: it ran longer than its timeout of 0.05 s"]`},
		{"threads", 2, `["call futures.double: only the thread in which the task's function runs can do that, or another one in a block ` + "`with cascade.strand(NAME):`" + `","the result of futures.double: only the thread in which the task's function runs can do that, or another one in a block ` + "`with cascade.strand(NAME):`" + `","wait: only the thread in which the task's function runs can do that, or another one in a block ` + "`with cascade.strand(NAME):`" + `",4]`},
		{"strands", 3, `[[[[0,1,2],2,1,0,24999.5,14],[[10,11,12],2,1,1,24999.5,14],[[20,21,22],2,1,2,24999.5,14]],380]`},
		{"drops", 60, `1770`}, // of 8 MB each, and the store has 256 MiB
		{"views", 8, `[[0,3,6],[0,1,2,3,4,5,6,7]]`},
	} {
		t.Run(test.function, func(t *testing.T) {
			job := submitText(t, c, "testdata/job", fmt.Appendf(nil, `job: futures
environments:
  py: {python: {pip: [numpy]}, working_dir: .}
tasks:
  %[1]s: {run: "py:futures.%[1]s", with: {n: %[2]d}, out: [said]}
outputs: [%[1]s.said]
`, test.function, test.n))
			want := fmt.Sprintf("%s.said = %s\n", test.function, test.want)
			if got := outcome(t, c, job); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// What a run says to its agent of its calls: together where it can, in the order in which they are made.
func TestCallMessages(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	if got := prints(t, ".", env, python, "testdata/calls.py"); got != "" {
		t.Error(got)
	}
}
