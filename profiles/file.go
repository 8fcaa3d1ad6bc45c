package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// FileVersion is the version of profile files that this program writes.
const FileVersion = 1

// File is a set of profiles as a JSON file, to look at and to carry elsewhere.
type File struct {
	Version  int     `json:"cascade_profiles"`
	Profiles []Entry `json:"profiles"`

	Links []LinkEntry `json:"links,omitempty"` // between hosts; none in files of earlier programs, which pass over them
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
	MemoryHeld       float64            `json:"memory_held,omitempty"` // that sufficed for most, where the job says less
	CPU              float64            `json:"cpu,omitempty"`         // cores kept busy; 0 unknown
	CPURuns          uint64             `json:"cpu_runs,omitempty"`

	Quantiles *Quantiles `json:"quantiles,omitempty"` // to look at: they are read from the histograms
	Scale     *Scale     `json:"scale,omitempty"`     // to look at: the lines of Points

	Version string       `json:"version,omitempty"`           // of the code, hexadecimal
	Prior   uint64       `json:"prior_runs,omitempty"`        // of Runs: those of the code before, discounted
	Before  *Earlier     `json:"before,omitempty"`            // what that cost
	Times   [][2]float64 `json:"seconds_histogram,omitempty"` // bucket and weight: see Sketch
	Sizes   [][2]float64 `json:"bytes_histogram,omitempty"`
	Peaks   [][2]float64 `json:"memory_histogram,omitempty"`
	Points  [][3]float64 `json:"points,omitempty"`  // bytes of inputs, seconds, bytes of outputs
	Classes [][4]float64 `json:"classes,omitempty"` // inputs of 4^n to 4^(n+1) bytes: n, runs, seconds, bytes
}

// Quantiles are those of seconds, output bytes and memory.
type Quantiles struct {
	Seconds [3]float64 `json:"seconds"` // of half, 90 % and 99 % of the runs
	Bytes   [3]float64 `json:"bytes"`
	Memory  [3]float64 `json:"memory"`
}

// Scale says how costs grow with the bytes of inputs, with the part of the variance
// that a line explains; nil: by no line.
type Scale struct {
	Seconds *Line `json:"seconds,omitempty"`
	Bytes   *Line `json:"bytes,omitempty"`
}

// Line is At + PerByte * bytes of inputs.
type Line struct {
	At      float64 `json:"at"`
	PerByte float64 `json:"per_byte"`
	R2      float64 `json:"r2"`
}

// Earlier is what the code before cost, on average.
type Earlier struct {
	Version string  `json:"version,omitempty"`
	Runs    uint64  `json:"runs"`
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes"`
	Memory  float64 `json:"memory,omitempty"`
}

// Signature returns what the entry is about.
func (e *Entry) Signature() Signature { return Signature{e.Job, e.Task, e.Function} }

// Encode returns the file's bytes: one profile a line, so that differences show.
func (f *File) Encode() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"cascade_profiles\": %d, \"profiles\": ", f.Version)
	if err := encodeLines(&b, f.Profiles); err != nil {
		return nil, fmt.Errorf("write profiles: %w", err)
	}
	if len(f.Links) > 0 {
		b.WriteString(", \"links\": ")
		if err := encodeLines(&b, f.Links); err != nil {
			return nil, fmt.Errorf("write links: %w", err)
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// encodeLines writes a list with one element a line.
func encodeLines[T any](b *bytes.Buffer, all []T) error {
	b.WriteByte('[')
	for i := range all {
		line, err := json.Marshal(&all[i])
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(line)
	}
	b.WriteString("\n]")
	return nil
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
	pairs := make(map[Pair]int, len(f.Links))
	for i := range f.Links {
		e := &f.Links[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: links[%d] (from %q to %q): %w", name, i, e.From, e.To, err)
		}
		if k, ok := pairs[e.Pair()]; ok {
			return nil, fmt.Errorf("%s: links[%d] is about the same hosts as links[%d] (from %q to %q)", name, i, k, e.From, e.To)
		}
		pairs[e.Pair()] = i
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
		return errors.New("runs is 0: a task that never ran has no profile")
	}
	costs := []cost{{"seconds", e.Seconds}, {"seconds_deviation", e.SecondsDeviation}, {"bytes", e.Bytes}, {"bytes_deviation", e.BytesDeviation},
		{"memory", e.Memory}, {"memory_peak", e.MemoryPeak}, {"memory_held", e.MemoryHeld}, {"cpu", e.CPU}}
	for out, n := range e.Outputs {
		costs = append(costs, cost{"outputs." + out, n})
	}
	for _, list := range [...]struct {
		name string
		of   [][2]float64
	}{{"seconds_histogram", e.Times}, {"bytes_histogram", e.Sizes}, {"memory_histogram", e.Peaks}} {
		if err := checkHistogram(list.name, list.of); err != nil {
			return err
		}
	}
	if len(e.Points) > maxPoints || len(e.Classes) > maxClasses {
		return fmt.Errorf("%d points and %d classes; want at most %d and %d", len(e.Points), len(e.Classes), maxPoints, maxClasses)
	}
	for _, x := range e.Points {
		costs = append(costs, cost{"points", x[0]}, cost{"points", x[1]}, cost{"points", x[2]})
	}
	for i, x := range e.Classes {
		if x[0] != math.Trunc(x[0]) || !(x[0] >= 0 && x[0] <= math.MaxInt8) || i > 0 && x[0] <= e.Classes[i-1][0] || x[1] != math.Trunc(x[1]) {
			return fmt.Errorf("classes[%d] is %v; want a whole number, rising, and runs", i, x)
		}
		costs = append(costs, cost{"classes", x[1]}, cost{"classes", x[2]}, cost{"classes", x[3]})
	}
	if b := e.Before; b != nil {
		costs = append(costs, cost{"before.seconds", b.Seconds}, cost{"before.bytes", b.Bytes}, cost{"before.memory", b.Memory})
	}
	for _, v := range []string{e.Version, e.before().Version} {
		if _, err := versionOf(v); err != nil {
			return err
		}
	}
	return checkCosts(costs)
}

func checkHistogram(name string, of [][2]float64) error {
	for i, x := range of {
		if len(of) > maxBins || x[0] != math.Trunc(x[0]) || math.Abs(x[0]) > math.MaxInt16 || !(x[1] > 0 && x[1] <= 1e9) || i > 0 && x[0] <= of[i-1][0] {
			return fmt.Errorf("%s[%d] is %v; want at most %d pairs of a bucket, rising, and a weight above 0", name, i, x, maxBins)
		}
	}
	return nil
}

type cost struct {
	name  string
	value float64
}

func checkCosts(all []cost) error {
	for _, c := range all {
		if !(c.value >= 0 && c.value <= maxCost) {
			return fmt.Errorf("%s is %g; want a number from 0 to %g", c.name, c.value, maxCost)
		}
	}
	return nil
}

func versionOf(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("version %q: want a hexadecimal number", text)
	}
	return v, nil
}

func versionText(v uint64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", v)
}

func (e *Entry) before() Earlier {
	if e.Before == nil {
		return Earlier{}
	}
	return *e.Before
}

// EntryOf is a profile as an entry of a file.
func EntryOf(sig Signature, p Profile) Entry {
	e := Entry{Job: sig.Job, Task: sig.Group, Function: sig.Function, Runs: p.Count, Seconds: p.Seconds, SecondsDeviation: math.Sqrt(p.SecondsVar),
		Bytes: p.Bytes, BytesDeviation: math.Sqrt(p.BytesVar), Memory: p.Memory, MemoryPeak: p.MemoryPeak, MemoryRuns: p.MemoryCount, MemoryHeld: p.Held,
		CPU: p.CPU, CPURuns: p.CPUCount, Version: versionText(p.Version), Prior: p.Prior,
		Times: p.Times.pairs(), Sizes: p.Sizes.pairs(), Peaks: p.Peaks.pairs()}
	if p.Before.Count > 0 {
		e.Before = &Earlier{versionText(p.Before.Version), p.Before.Count, p.Before.Seconds, p.Before.Bytes, p.Before.Memory}
	}
	if len(p.Times.bins) > 0 {
		e.Quantiles = &Quantiles{p.Times.three(), p.Sizes.three(), p.Peaks.three()}
	}
	for _, x := range p.Points {
		e.Points = append(e.Points, [3]float64{x.In, x.Seconds, x.Bytes})
	}
	for _, x := range p.Classes {
		e.Classes = append(e.Classes, [4]float64{float64(x.Log), float64(x.Count), x.Seconds, x.Bytes})
	}
	seconds, bytes := p.Lines()
	if seconds.R2 > 0 || bytes.R2 > 0 {
		e.Scale = &Scale{lineOf(seconds), lineOf(bytes)}
	}
	return e
}

func lineOf(f Fit) *Line {
	if f.R2 == 0 {
		return nil
	}
	return &Line{f.At, f.PerByte, f.R2}
}

func (s Sketch) three() [3]float64 {
	return [3]float64{s.Quantile(0.5), s.Quantile(0.9), s.Quantile(0.99)}
}

func (s Sketch) pairs() (out [][2]float64) {
	for _, b := range s.bins {
		out = append(out, [2]float64{float64(b.key), float64(b.weight)})
	}
	return out
}

func sketchOf(pairs [][2]float64) (s Sketch) {
	for _, x := range pairs {
		s.bins = append(s.bins, bin{int16(x[0]), float32(x[1])})
	}
	return s
}

// Profile is the entry as it is kept. The entry must be one that ParseFile returned.
func (e *Entry) Profile() Profile {
	p := Profile{Count: e.Runs, Seconds: e.Seconds, SecondsVar: e.SecondsDeviation * e.SecondsDeviation,
		Bytes: e.Bytes, BytesVar: e.BytesDeviation * e.BytesDeviation, Memory: e.Memory, MemoryCount: e.MemoryRuns, MemoryPeak: e.MemoryPeak, Held: e.MemoryHeld,
		CPU: e.CPU, CPUCount: e.CPURuns, Prior: e.Prior, Times: sketchOf(e.Times), Sizes: sketchOf(e.Sizes), Peaks: sketchOf(e.Peaks)}
	p.Version, _ = versionOf(e.Version)
	b := e.before()
	v, _ := versionOf(b.Version)
	p.Before = Before{v, b.Runs, b.Seconds, b.Bytes, b.Memory}
	for _, x := range e.Points {
		p.Points = append(p.Points, Point{x[0], x[1], x[2]})
	}
	for _, x := range e.Classes {
		p.Classes = append(p.Classes, Class{int8(x[0]), uint64(x[1]), x[2], x[3]})
	}
	return p
}

// Snapshot returns the file's profiles for predictions.
func (f *File) Snapshot() Snapshot {
	s := Snapshot{m: make(map[Signature]Profile, len(f.Profiles)), outputs: map[Signature]map[string]float64{}, links: make(map[Pair]*Link, len(f.Links))}
	for i := range f.Links {
		s.links[f.Links[i].Pair()] = f.Links[i].Link()
	}
	for i := range f.Profiles {
		e := &f.Profiles[i]
		s.m[e.Signature()] = e.Profile()
		if len(e.Outputs) > 0 {
			s.outputs[e.Signature()] = e.Outputs
		}
	}
	return s
}

// Output returns the bytes that an output of a task is expected to have, of which
// there are n in all: its own where they are known, else an equal part of all.
func (s Snapshot) Output(sig Signature, name string, n int) float64 {
	return s.OutputOf(sig, name, n, s.Predict(sig).Bytes)
}

// OutputOf is Output when all outputs together are expected to have so many bytes.
func (s Snapshot) OutputOf(sig Signature, name string, n int, all float64) float64 {
	if bytes, ok := s.outputs[sig][name]; ok {
		return bytes
	}
	return all / float64(max(n, 1))
}
