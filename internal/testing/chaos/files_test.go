//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"
)

// TestOpenFiles: with too few descriptors a run ends and says so; with few of them
// it works on many more files than it may have open.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	h := New(t)
	last := rounds(300, 2000) - 1
	h.Write("job.yaml", strings.ReplaceAll(`
job: files
tasks:
  part: {for: {i: "0..LAST"}, command: "echo ${i} > ${out.x}", out: [x]}
  all: {command: [cat, "${in.x[*]}"], stdout: out, in: {x: "part[*].x"}, out: [out]}
outputs: [{from: all.out, to: all.txt}]
`, "LAST", fmt.Sprint(last)))
	for _, c := range []struct {
		limit, code int
		says        string
	}{{24, 3, "too many open files"}, {128, 0, "all.txt"}} {
		run := h.start("cascade run", "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, c.limit),
			Program(t, "cascade"), "run", "job.yaml", "--cpu", "2", "--memory", "1GiB", "--store", "64MiB")
		if code := run.Wait(); code != c.code || !strings.Contains(run.Output(), c.says) {
			t.Errorf("with %d descriptors the run ended with %d:\n%s", c.limit, code, tail(run.Output(), 4<<10))
		}
	}
}
