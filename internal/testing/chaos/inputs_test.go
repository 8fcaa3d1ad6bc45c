//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade"
)

// The agent that has read an input is lost with its memory, and the file is gone by
// then: the next agent reads what the controller keeps of it.
func TestInputIsReadAgain(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller("--grace", "500ms")
	first := h.Agent()
	const size = 1 << 20
	h.Write("in.txt", strings.Repeat("0123456789abcdef", size/16))
	gate := h.Pipe("gate")
	read := make(chan struct{})
	var once sync.Once
	j := h.Submit(h.ReadyClient(1), `
job: read
inputs: {x: {file: in.txt}}
tasks:
  count: {command: "dd bs=1 count=1 if=`+gate+` >&2 && wc -c < ${in.x}", in: {x: x}, out: [n], stdout: n}
outputs: [count.n, x]
`, func(p *cascade.Progress) {
		for i := range p.Groups { // its event may have come before the watch
			if g := &p.Groups[i]; g.Group == "x" && g.Done == 1 {
				once.Do(func() { close(read) })
			}
		}
	})
	<-read
	if err := os.Remove(filepath.Join(h.Dir, "in.txt")); err != nil {
		t.Fatal(err)
	}
	first.Kill()
	h.SecondAgent()
	open, err := os.OpenFile(gate, os.O_RDWR, 0) // nobody waits for its end
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.WriteString("gggg"); err != nil {
		t.Fatal(err)
	}
	got := j.Done()
	if string(got.Data["count.n"]) != "1048576\n" || len(got.Data["x.data"]) != size {
		t.Errorf("the count is %q, the input has %d bytes", got.Data["count.n"], len(got.Data["x.data"]))
	}
	if x := got.Tasks["x"]; x.Attempt < 2 {
		t.Errorf("the input was read once, on %s", x.Agent)
	}
}
