package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// recordedFiles are the recordings that are played, of applications that differ in shape.
var recordedFiles = [...]string{"montage-chameleon-2mass-05d-001", "seismology-chameleon-1000p-001", "epigenomics-chameleon-ilmn-2seq-50k-001",
	"1000genome-chameleon-10ch-100k-001", "cycles-chameleon-1l-1c-9p-001"}

// recording is what of WfFormat is played: tasks by name, what each waits for, how long it took.
type recording struct {
	Workflow struct {
		Specification struct {
			Tasks []struct {
				ID      string   `json:"id"`
				Parents []string `json:"parents"`
			} `json:"tasks"`
		} `json:"specification"`
		Execution struct {
			Tasks []struct {
				ID      string  `json:"id"`
				Seconds float64 `json:"runtimeInSeconds"`
			} `json:"tasks"`
		} `json:"execution"`
	} `json:"workflow"`
}

// slept is a task of a trace for runners: seconds, and the numbers of tasks before it.
type slept [2]any

var errCycle = errors.New("tasks wait for each other in a circle, or for one that is not there")

// trace orders the tasks and scales their times, so that all together they are work
// seconds. The bound is the least time on so many cores: the work, or the longest path.
func (r *recording) trace(work float64, cores int) (tasks []slept, bound float64, err error) {
	took := map[string]float64{}
	sum := 0.0
	for _, t := range r.Workflow.Execution.Tasks {
		took[t.ID] = t.Seconds
		sum += t.Seconds
	}
	if sum <= 0 {
		return nil, 0, errors.New("no task took any time")
	}
	number, ends := map[string]int{}, []float64{}
	for len(tasks) < len(r.Workflow.Specification.Tasks) {
		before := len(tasks)
		for _, t := range r.Workflow.Specification.Tasks {
			if _, done := number[t.ID]; done {
				continue
			}
			needs, begins, ready := []int{}, 0.0, true
			for _, p := range t.Parents {
				k, done := number[p]
				if ready = done; !ready {
					break
				}
				needs, begins = append(needs, k), max(begins, ends[k])
			}
			if !ready {
				continue
			}
			seconds := took[t.ID] / sum * work
			number[t.ID] = len(tasks)
			tasks, ends = append(tasks, slept{seconds, needs}), append(ends, begins+seconds)
			bound = max(bound, begins+seconds)
		}
		if len(tasks) == before {
			return nil, 0, errCycle
		}
	}
	return tasks, max(bound, work/float64(cores)), nil
}

// traces are workloads of recordings in a folder; none where there is no such folder.
func traces(dir string, cores int) (all []workload, err error) {
	for _, name := range recordedFiles {
		b, err := os.ReadFile(filepath.Join(dir, "wfinstances", name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r recording
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("read the recording %s: %w", name, err)
		}
		application, _, _ := strings.Cut(name, "-")
		const work = 2 // core-seconds
		tasks, bound, err := r.trace(work*float64(cores), cores)
		if err != nil {
			return nil, fmt.Errorf("recording %s: %w", name, err)
		}
		w := workload{number: 9, suite: "work", name: "trace " + application, kind: "trace", full: args{"tasks": tasks}, limit: time.Minute,
			metrics: []metric{less("", "× bound", scaled("seconds", 1/bound))}}
		if len(tasks) < 100 {
			w.short = w.full
		}
		all = append(all, w)
	}
	return all, nil
}
