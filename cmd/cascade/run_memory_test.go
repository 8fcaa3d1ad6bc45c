package main

import (
	"strings"
	"testing"
)

// A task that was ended because it took more memory than its job says begins with what was
// enough when the job runs again, also under the name of another night: nothing is tried
// twice then. The plan says so.
func TestRunBeginsWithWhatWasEnough(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", `
job: night-${params.night}
params: {night: 1, hold: 1000}
tasks:
  large:
    command: "(head -c 200000000 /dev/zero; [ $CASCADE_ATTEMPT != 1 ] || sleep ${params.hold}) | tail -c 200000000 | wc -c > ${out.x}"
    out: [x]
    resources: {memory: 100MiB}
  small: {command: "echo small > ${out.x}", out: [x], resources: {memory: 100MiB}}
`)
	if got := h.start("", "run", "job.yaml").wait(); !strings.Contains(got, "tried again  1") {
		t.Fatalf("the first run:\n%s", got)
	}
	got := h.start("", "plan", "job.yaml", "-p", "night=2").wait()
	for _, line := range strings.Split(got, "\n") {
		if begins := strings.Contains(line, "MiB of memory: most needed more than the 100 MiB that its job says"); begins != strings.HasPrefix(line, "large ") {
			t.Errorf("the plan of the next run: %s", line)
		}
	}
	// Whoever looks at it within a second sees it hold more than the job says.
	if got := h.start("", "run", "job.yaml", "-p", "night=2", "-p", "hold=1").wait(); !strings.Contains(got, "tried again  0") {
		t.Errorf("the next run:\n%s", got)
	}
	if got := h.start("", "explain", "last", "large").wait(); !strings.Contains(got, "attempt 1") || !strings.Contains(got, "of memory: most needed more") {
		t.Errorf("the next run's task:\n%s", got)
	}
}

// So does a gang, one member of which takes too much: all begin with what was enough for it.
func TestGangBeginsWithWhatWasEnough(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", `
job: crew
params: {hold: 1000}
tasks:
  crew:
    gang: 2
    command: "(head -c $((1000000 + CASCADE_GANG_RANK * 200000000)) /dev/zero; [ $CASCADE_ATTEMPT != 1 ] || sleep ${params.hold}) | tail -c 300000000 | wc -c > ${out.x}"
    out: [x]
    resources: {memory: 100MiB}
`)
	if got := h.start("", "run", "job.yaml", "--cpu", "2").wait(); !strings.Contains(got, "job crew done") || strings.Contains(got, "tried again  0") {
		t.Fatalf("the first run:\n%s", got)
	}
	if got := h.start("", "run", "job.yaml", "--cpu", "2", "-p", "hold=1").wait(); !strings.Contains(got, "tried again  0") {
		t.Errorf("the next run:\n%s", got)
	}
	if got := h.start("", "explain", "last", "crew[0]").wait(); !strings.Contains(got, "of memory: most needed more than the 100 MiB") {
		t.Errorf("the next run's first member:\n%s", got)
	}
}
