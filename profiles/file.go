package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// FileVersion is the version of profile files that this program writes.
const FileVersion = 1

// File is a set of profiles as a JSON file, to look at and to carry elsewhere.
type File struct {
	Version  int     `json:"cascade_profiles"`
	Profiles []Entry `json:"profiles"`
}

// Entry is what is known of the tasks of one signature. Means weigh recent runs
// more; deviations are standard deviations; sizes and memory are bytes.
type Entry struct {
	Job      string `json:"job,omitempty"`
	Task     string `json:"task,omitempty"`
	Function string `json:"function,omitempty"`

	Runs             uint64             `json:"runs"`
	Seconds          float64            `json:"seconds"`
	SecondsDeviation float64            `json:"seconds_deviation,omitempty"`
	Bytes            float64            `json:"bytes"` // of all outputs
	BytesDeviation   float64            `json:"bytes_deviation,omitempty"`
	Outputs          map[string]float64 `json:"outputs,omitempty"` // bytes of each, where that is known
	Memory           float64            `json:"memory,omitempty"`
	MemoryPeak       float64            `json:"memory_peak,omitempty"`
	MemoryRuns       uint64             `json:"memory_runs,omitempty"`
	CPU              float64            `json:"cpu,omitempty"` // cores kept busy; 0 unknown
}

// Signature returns what the entry is about.
func (e *Entry) Signature() Signature { return Signature{e.Job, e.Task, e.Function} }

// Encode returns the file's bytes: one profile a line, so that differences show.
func (f *File) Encode() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"cascade_profiles\": %d, \"profiles\": [", f.Version)
	for i := range f.Profiles {
		line, err := json.Marshal(&f.Profiles[i])
		if err != nil {
			return nil, fmt.Errorf("write profile of %v: %w", f.Profiles[i].Signature(), err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

// ParseFile reads what Encode writes; name is that of the file, for errors.
func ParseFile(name string, b []byte) (*File, error) {
	var f File
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: it is no profile file: %w", name, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: something follows the profiles", name)
	}
	switch {
	case f.Version <= 0:
		return nil, fmt.Errorf("%s: cascade_profiles is missing: this is no profile file", name)
	case f.Version > FileVersion:
		return nil, fmt.Errorf("%s: it has version %d, this program reads up to %d; use a later one", name, f.Version, FileVersion)
	}
	seen := make(map[Signature]int, len(f.Profiles))
	for i := range f.Profiles {
		e := &f.Profiles[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: profiles[%d] (task %q of job %q): %w", name, i, e.Task, e.Job, err)
		}
		if k, ok := seen[e.Signature()]; ok {
			return nil, fmt.Errorf("%s: profiles[%d] is about the same tasks as profiles[%d] (task %q of job %q)", name, i, k, e.Task, e.Job)
		}
		seen[e.Signature()] = i
	}
	return &f, nil
}

func (e *Entry) check() error {
	for _, s := range []string{e.Job, e.Task, e.Function} {
		if strings.ContainsRune(s, 0) {
			return errors.New("a name holds a NUL")
		}
	}
	if e.Runs == 0 {
		return errors.New("runs is 0; what never ran has no profile")
	}
	type cost struct {
		name  string
		value float64
	}
	costs := []cost{{"seconds", e.Seconds}, {"seconds_deviation", e.SecondsDeviation}, {"bytes", e.Bytes}, {"bytes_deviation", e.BytesDeviation},
		{"memory", e.Memory}, {"memory_peak", e.MemoryPeak}, {"cpu", e.CPU}}
	for out, n := range e.Outputs {
		costs = append(costs, cost{"outputs." + out, n})
	}
	for _, c := range costs {
		if !(c.value >= 0 && c.value <= maxCost) {
			return fmt.Errorf("%s is %g; want a number from 0 to %g", c.name, c.value, maxCost)
		}
	}
	return nil
}

// Snapshot returns the file's profiles for predictions.
func (f *File) Snapshot() Snapshot {
	s := Snapshot{m: make(map[Signature]Profile, len(f.Profiles)), outputs: map[Signature]map[string]float64{}}
	for i := range f.Profiles {
		e := &f.Profiles[i]
		s.m[e.Signature()] = Profile{Count: e.Runs, Seconds: e.Seconds, SecondsVar: e.SecondsDeviation * e.SecondsDeviation,
			Bytes: e.Bytes, BytesVar: e.BytesDeviation * e.BytesDeviation, Memory: e.Memory, MemoryCount: e.MemoryRuns, MemoryPeak: e.MemoryPeak}
		if len(e.Outputs) > 0 {
			s.outputs[e.Signature()] = e.Outputs
		}
	}
	return s
}

// Output returns the bytes that an output of a task is expected to have, of which
// there are n in all: its own where they are known, else an equal part of all.
func (s Snapshot) Output(sig Signature, name string, n int) float64 {
	if bytes, ok := s.outputs[sig][name]; ok {
		return bytes
	}
	return s.Predict(sig).Bytes / float64(max(n, 1))
}
