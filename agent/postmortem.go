//go:build linux

package agent

import (
	"fmt"
	"os"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
)

// maxCrash is how much of a crash output is read.
const maxCrash = 1 << 20

// postMortem puts together what is known about a death: how the process ended,
// in which run it was, and whether it touched memory that it must not write.
func postMortem(id comms.ExecutorID, files executorFiles, control *shm.Control, exit process.Exit) core.ExecutorDead {
	dead := core.ExecutorDead{Executor: id, Why: exit.String(), Signal: exit.Signal(), Tail: exit.Output}
	if control == nil {
		return dead
	}
	if step, steps := control.Last(); steps > 0 {
		dead.Run = comms.RunID(step.Run)
	}
	// The crash file has the runtime's own words; where it could not be
	// written, standard error has them too.
	text, err := readHead(files.crash, maxCrash)
	if err != nil || len(text) == 0 {
		text = exit.Output
	} else {
		dead.Tail = append(dead.Tail, text[:min(len(text), 4<<10)]...)
	}
	crash, ok := shm.ParseCrash(text)
	if !ok {
		return dead
	}
	where, ok := control.Find(crash.Addr)
	if !ok {
		return dead
	}
	dead.ReadOnly = true
	what := "a dataset that it may only read"
	if where.Lease {
		what = "an output after it was published"
	}
	dead.Why = fmt.Sprintf("wrote to %s (segment %s, offset %d)", what, where.Name, where.Offset)
	return dead
}

func readHead(path string, most int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buf := make([]byte, most)
	n := 0
	for n < most {
		k, err := file.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	return buf[:n], nil
}
