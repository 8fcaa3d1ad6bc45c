package wfformat

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// Recording is a workflow that ran, for Write.
type Recording struct {
	Name     string
	System   string    // name and version of what ran it
	Started  time.Time // its first task
	Makespan float64   // seconds from there to the end of its last task
	Tasks    []Ran
	Files    []File // that tasks wrote, each once
	Machines []Machine
}

// Ran is a task that ran.
type Ran struct {
	ID, Name string   // its own, and that of its family
	Parents  []string // tasks for which it waited
	Inputs   []string // files
	Outputs  []string // files
	Seconds  float64
	Cores    float64 // granted; 0 unknown
	CPU      float64 // seconds of processor time
	Memory   float64 // bytes at its peak; 0 unknown
	Machine  string
}

// File is a file and how large it is.
type File struct {
	ID    string
	Bytes float64
}

// Machine is a host of a recording.
type Machine struct {
	Name  string
	Cores float64
}

// schemaWritten is the version of WfFormat that Write writes.
const schemaWritten = "1.5"

type (
	writtenDocument struct {
		Name     string          `json:"name"`
		Created  string          `json:"createdAt"`
		Schema   string          `json:"schemaVersion"`
		System   writtenSystem   `json:"runtimeSystem"`
		Workflow writtenWorkflow `json:"workflow"`
	}
	writtenSystem struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	writtenWorkflow struct {
		Specification struct {
			Tasks []specTask    `json:"tasks"`
			Files []writtenFile `json:"files"`
		} `json:"specification"`
		Execution struct {
			Makespan float64          `json:"makespanInSeconds"`
			At       string           `json:"executedAt"`
			Tasks    []writtenExec    `json:"tasks"`
			Machines []writtenMachine `json:"machines"`
		} `json:"execution"`
	}
	writtenFile struct {
		ID   string `json:"id"`
		Size int64  `json:"sizeInBytes"`
	}
	writtenExec struct {
		ID       string   `json:"id"`
		Seconds  float64  `json:"runtimeInSeconds"`
		Cores    float64  `json:"coreCount,omitempty"`
		AvgCPU   float64  `json:"avgCPU,omitempty"`
		Memory   int64    `json:"memoryInBytes,omitempty"`
		Machines []string `json:"machines,omitempty"`
	}
	writtenMachine struct {
		Name string `json:"nodeName"`
		CPU  struct {
			Cores float64 `json:"coreCount"`
		} `json:"cpu"`
	}
)

// Write writes a recording, which Read reads: one file that holds graph and costs.
func Write(w io.Writer, r *Recording) error {
	at := r.Started.UTC().Format(time.RFC3339Nano)
	d := writtenDocument{Name: r.Name, Created: at, Schema: schemaWritten, System: writtenSystem{"Cascade", r.System}}
	children := map[string][]string{}
	for i := range r.Tasks {
		for _, p := range r.Tasks[i].Parents {
			children[p] = append(children[p], r.Tasks[i].ID)
		}
	}
	list := func(s []string) []string { return append([]string{}, s...) } // the schema wants [] and not null
	spec, exec := &d.Workflow.Specification, &d.Workflow.Execution
	for i := range r.Tasks {
		t := &r.Tasks[i]
		spec.Tasks = append(spec.Tasks, specTask{t.Name, t.ID, list(t.Parents), list(children[t.ID]), list(t.Inputs), list(t.Outputs)})
		x := writtenExec{ID: t.ID, Seconds: t.Seconds, Cores: t.Cores, Memory: int64(t.Memory)}
		if t.Seconds > 0 {
			x.AvgCPU = math.Round(t.CPU/t.Seconds*1e4) / 100
		}
		if t.Machine != "" {
			x.Machines = []string{t.Machine}
		}
		exec.Tasks = append(exec.Tasks, x)
	}
	spec.Files = []writtenFile{}
	for _, f := range r.Files {
		spec.Files = append(spec.Files, writtenFile{f.ID, int64(f.Bytes)})
	}
	exec.Makespan, exec.At, exec.Machines = r.Makespan, at, []writtenMachine{}
	for _, m := range r.Machines {
		x := writtenMachine{Name: m.Name}
		x.CPU.Cores = m.Cores
		exec.Machines = append(exec.Machines, x)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(&d); err != nil {
		return fmt.Errorf("write recording %s: %w", r.Name, err)
	}
	return nil
}
