package profiles

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// Signature names what is profiled together. Function is a registered name, or
// "" for a command.
type Signature struct{ Job, Group, Function string }

// Key returns the signature as one string; ParseKey is its inverse. Names hold no NUL.
func (s Signature) Key() string { return s.Job + "\x00" + s.Group + "\x00" + s.Function }

// ParseKey reads what Key writes.
func ParseKey(key string) (Signature, error) {
	parts := strings.Split(key, "\x00")
	if len(parts) != 3 {
		return Signature{}, fmt.Errorf("profile key %q: want job, group and function", key)
	}
	return Signature{parts[0], parts[1], parts[2]}, nil
}

// Series returns the name that jobs share whose names differ in numbers only, each of
// which it turns into #: the job of each night has that night's date in its name.
func Series(job string) string {
	var out strings.Builder
	number := false
	for _, r := range job {
		digit := '0' <= r && r <= '9'
		switch {
		case !digit:
			out.WriteRune(r)
		case !number:
			out.WriteByte('#')
		}
		number = digit
	}
	return out.String()
}

// series is the signature of the same tasks in all jobs of the series.
func (s Signature) series() Signature {
	s.Job = Series(s.Job)
	return s
}

// Sample is what one run cost: seconds, bytes of all outputs, private memory at its
// peak in bytes, cores that it kept busy, and bytes of all inputs. Of the last three
// 0 is unknown. Version is that of the code, 0 unknown: see planner.VersionOf.
type Sample struct {
	Seconds float64
	Bytes   float64
	Memory  float64
	CPU     float64
	In      float64
	Version uint64
	Cut     bool // it was ended because of its memory: nothing else counts, and that for the least that it takes
}

// maxCost bounds what is recorded: its square, in a variance, must stay finite,
// or the profile could not be read again.
const maxCost = 1e100

// window is how many runs a mean looks back on: what is older fades, so that a
// profile follows a task that changes.
const window = 50

// priorRuns is how many runs of the code before count for one of a new version: a
// prior that as many new ones outweigh.
const priorRuns = 5

// Profile sums up runs. Means and variances are of the last runs, weighted
// exponentially once there are more than 50. A Profile that was read must not be changed.
type Profile struct {
	Count       uint64
	Seconds     float64 // mean
	SecondsVar  float64 // variance
	Bytes       float64 // mean
	BytesVar    float64
	Memory      float64 // mean of the known peaks
	MemoryCount uint64
	MemoryPeak  float64 // highest ever
	Held        float64 // bytes of memory that sufficed where most tasks of the last job needed more than it says; 0: they did not
	CPU         float64 // mean of the known: cores kept busy
	CPUCount    uint64

	Version uint64 // of the code that ran last; 0 unknown
	Prior   uint64 // of Count: runs of the code before
	Before  Before // what that cost; zero when there was none

	Times, Sizes, Peaks Sketch  // of seconds, bytes and memory
	Points              []Point // the last runs that had inputs, the oldest first
	Classes             []Class // by the size of the inputs, sorted
}

// Before is what the code before cost, on average.
type Before struct {
	Version, Count         uint64
	Seconds, Bytes, Memory float64
}

// Add returns the profile with one more run.
func (p Profile) Add(s Sample) Profile {
	p = p.own()
	p.add(&s)
	return p
}

// own returns a copy that shares nothing.
func (p Profile) own() Profile {
	p.Times, p.Sizes, p.Peaks = p.Times.clone(), p.Sizes.clone(), p.Peaks.clone()
	p.Points, p.Classes = slices.Clone(p.Points), slices.Clone(p.Classes)
	return p
}

// add takes in a run. The mean and variance are updated as in West, Updating mean
// and variance estimates: an improved method (CACM 1979).
func (p *Profile) add(s *Sample) {
	p.renew(s.Version)
	p.addMemory(s.Memory)
	if s.Cut {
		return
	}
	p.Count++
	n := float64(min(p.Count, window))
	p.Seconds, p.SecondsVar = update(p.Seconds, p.SecondsVar, s.Seconds, 1/n)
	p.Bytes, p.BytesVar = update(p.Bytes, p.BytesVar, s.Bytes, 1/n)
	p.Times.add(s.Seconds, n)
	p.Sizes.add(s.Bytes, n)
	if s.CPU > 0 {
		p.CPUCount++
		p.CPU += (s.CPU - p.CPU) / float64(min(p.CPUCount, window))
	}
	p.grow(s)
}

func (p *Profile) addMemory(bytes float64) {
	if bytes <= 0 {
		return
	}
	p.MemoryCount++
	n := float64(min(p.MemoryCount, window))
	p.Memory += (bytes - p.Memory) / n
	p.MemoryPeak = max(p.MemoryPeak, bytes)
	p.Peaks.add(bytes, n)
}

// renew begins a new version of the code: what the one before cost is all that is
// known, and counts for little.
func (p *Profile) renew(version uint64) {
	if version == 0 || version == p.Version {
		return
	}
	if p.Version != 0 {
		p.Before = Before{p.Version, p.Count - p.Prior, p.Seconds, p.Bytes, p.Memory}
		p.Prior = min(p.Count, priorRuns)
		p.Count, p.MemoryCount, p.CPUCount = p.Prior, min(p.MemoryCount, priorRuns), min(p.CPUCount, priorRuns)
		for _, s := range []*Sketch{&p.Times, &p.Sizes, &p.Peaks} {
			s.scale(priorRuns)
		}
		p.Points = p.Points[max(len(p.Points)-priorRuns, 0):]
		for i := range p.Classes {
			p.Classes[i].Count = min(p.Classes[i].Count, priorRuns)
		}
	}
	p.Version = version
}

func update(mean, variance, x, w float64) (float64, float64) {
	d := x - mean
	mean += w * d
	return mean, (1 - w) * (variance + w*d*d)
}

// Prediction is what a task is expected to cost. Spread is the standard deviation of Seconds.
type Prediction struct {
	Seconds float64
	Spread  float64
	Bytes   float64
	Memory  float64 // 0 unknown
	Peak    float64 // memory that nearly all runs (95 %) stay below; 0 unknown
	Held    float64 // what most tasks needed of memory, where their job says less; 0: what it says
	Basis   Basis
	Fit     float64 // R squared of the line by which Seconds grow with the inputs; 0: none
}

// Basis says what a prediction rests on.
type Basis uint8

// The bases of a prediction.
const (
	BasisDefault  Basis = iota // nothing is known: Default
	BasisFunction              // other tasks of the same function
	BasisSeries                // tasks of this group in jobs whose names differ in numbers only
	BasisTask                  // earlier runs of this task's group in this job
	BasisSize                  // those of them with about as many bytes of inputs
)

func (b Basis) String() string {
	return [...]string{"default", "function", "series", "task", "size"}[b]
}

// Default is the prediction for tasks of which nothing is known: a second and a
// mebibyte, between the no-ops and the models that people run.
func Default() Prediction { return Prediction{Seconds: 1, Spread: 1, Bytes: 1 << 20} }

// Snapshot is an immutable set of profiles. The zero value is empty.
type Snapshot struct {
	m       map[Signature]Profile
	outputs map[Signature]map[string]float64 // bytes of each output, where that is known
	links   map[Pair]*Link
}

// Predict returns what a task of the signature is expected to cost.
func (s Snapshot) Predict(sig Signature) Prediction { return s.PredictFor(sig, 0) }

// PredictFor is Predict for a task whose inputs together have so many bytes; 0 unknown.
func (s Snapshot) PredictFor(sig Signature, in float64) Prediction {
	p, basis := s.find(sig)
	if basis == BasisDefault {
		return Default()
	}
	out := Prediction{Seconds: p.Seconds, Spread: math.Sqrt(p.SecondsVar), Bytes: p.Bytes, Memory: p.Memory, Held: p.Held, Basis: basis}
	if out.Peak = min(p.Peaks.Quantile(0.95)*ratio, p.MemoryPeak); out.Peak == 0 {
		out.Peak = p.MemoryPeak
	}
	p.at(in, &out)
	return out
}

// find returns what says most of a signature, and what that rests on.
func (s Snapshot) find(sig Signature) (Profile, Basis) {
	if p, ok := s.m[sig]; ok {
		return p, BasisTask
	}
	if p, ok := s.m[sig.series()]; ok {
		return p, BasisSeries
	}
	if p, ok := s.m[Signature{Function: sig.Function}]; ok && sig.Function != "" {
		return p, BasisFunction
	}
	return Profile{}, BasisDefault
}

// Varies tells whether what is known of a signature depends on the size of the inputs.
func (s Snapshot) Varies(sig Signature) bool {
	p, _ := s.find(sig)
	return p.Varies()
}

// Corrected returns the snapshot with other mean durations, whatever the inputs.
func (s Snapshot) Corrected(seconds map[Signature]float64) Snapshot {
	out := Snapshot{m: maps.Clone(s.m), outputs: s.outputs, links: s.links}
	if out.m == nil {
		out.m = map[Signature]Profile{}
	}
	for sig, x := range seconds {
		p, _ := s.find(sig)
		if p.Count == 0 {
			p.Bytes = Default().Bytes
		}
		p.Seconds, p.Points, p.Classes = x, nil, nil
		p.Count = max(p.Count, 1)
		out.m[sig] = p
	}
	return out
}

// Len returns the number of signatures.
func (s Snapshot) Len() int { return len(s.m) }

// Book records runs and flows. It belongs to one goroutine.
type Book struct {
	m      map[Signature]Profile
	dirty  map[Signature]struct{}
	names  map[Signature]int // of a series: jobs in m that have a profile of their own
	shared bool              // a Snapshot refers to m

	links       map[Pair]*Link // none of them is changed
	dirtyLinks  map[Pair]struct{}
	linksShared bool // a Snapshot refers to links
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{m: map[Signature]Profile{}, dirty: map[Signature]struct{}{}, names: map[Signature]int{}}
}

// maxNames is how many jobs of a series have profiles of their own: of a job that has
// another name each night those would be as many as there are nights.
const maxNames = 8

// Record takes in one run. It also counts for the series, and for the function in all jobs. A cost
// that is negative or no number is not taken.
func (b *Book) Record(sig Signature, s Sample) {
	b.RecordAll(sig, func(yield func(Sample) bool) { yield(s) })
}

// RecordAll is Record for several runs in order. The profiles are looked up once.
func (b *Book) RecordAll(sig Signature, samples iter.Seq[Sample]) {
	b.own()
	sigs := b.countsFor(sig)
	all, taken := make([]Profile, len(sigs)), make([]bool, len(sigs))
	for k := range sigs {
		all[k] = b.m[sigs[k]]
	}
	if _, known := b.m[sigs[0]]; !known && sigs[0] == sig {
		all[0].Held = b.m[sig.series()].Held // with which it has begun
	}
	for s := range samples {
		if !s.ok() {
			continue
		}
		for k := range sigs {
			if s.Cut && all[k].Count == 0 { // nothing else is known of what was cut
				continue
			}
			own := s
			if sigs[k].Group == "" { // other jobs' code of that name need not be of the same version
				own.Version = 0
			}
			all[k].add(&own)
			taken[k] = true
		}
	}
	for k := range sigs {
		if taken[k] {
			b.put(sigs[k], all[k])
			b.dirty[sigs[k]] = struct{}{}
		}
	}
}

// Hold notes with how much memory most tasks of a job ended well, which says less; 0
// says that what it says is enough. It counts for the series, and for no function: other
// jobs say other things.
func (b *Book) Hold(sig Signature, bytes float64) {
	b.own()
	for _, s := range b.countsFor(sig) {
		if p, known := b.m[s]; known && s.Group != "" && p.Held != bytes && bytes >= 0 && bytes <= maxCost {
			p.Held = bytes
			b.m[s] = p
			b.dirty[s] = struct{}{}
		}
	}
}

// countsFor lists the signatures for which runs of one count: its own, unless there
// are many of its series, that of the series, and that of the function.
func (b *Book) countsFor(sig Signature) (out []Signature) {
	series, function := sig.series(), Signature{Function: sig.Function}
	if _, known := b.m[sig]; known || series == sig || b.names[series] < maxNames {
		out = append(out, sig)
	}
	if series != sig {
		out = append(out, series)
	}
	if sig.Function != "" && sig != function {
		out = append(out, function)
	}
	return out
}

// put sets a profile.
func (b *Book) put(sig Signature, p Profile) {
	if _, known := b.m[sig]; !known {
		if series := sig.series(); series != sig {
			b.names[series]++
		}
	}
	b.m[sig] = p
}

func (s *Sample) ok() bool {
	for _, x := range [...]float64{s.Seconds, s.Bytes, s.Memory, s.CPU, s.In} {
		if !(x >= 0 && x <= maxCost) { // also refuses NaN
			return false
		}
	}
	return true
}

func (b *Book) own() {
	if !b.shared {
		return
	}
	b.m, b.shared = maps.Clone(b.m), false
	for sig, p := range b.m {
		b.m[sig] = p.own()
	}
}

// Snapshot returns what is recorded now. It costs nothing; the next Record copies.
func (b *Book) Snapshot() Snapshot {
	b.shared, b.linksShared = true, true
	return Snapshot{m: b.m, links: b.links}
}

// SnapshotOf returns what is recorded of some signatures, their series and functions, and
// of all links. It costs what it returns of signatures, however much the book holds; the
// next Record copies nothing, and the next RecordFlow a map of the links.
func (b *Book) SnapshotOf(sigs iter.Seq[Signature]) Snapshot {
	m := map[Signature]Profile{}
	for sig := range sigs {
		for _, s := range [...]Signature{sig, sig.series(), {Function: sig.Function}} {
			if _, have := m[s]; have {
				continue // the function of many groups
			}
			if p, ok := b.m[s]; ok {
				m[s] = p.own()
			}
		}
	}
	b.linksShared = true
	return Snapshot{m: m, links: b.links}
}

// Predict is Snapshot.Predict of what is recorded now, without a copy of it.
func (b *Book) Predict(sig Signature) Prediction { return Snapshot{m: b.m}.Predict(sig) }

// All returns copies of what is recorded.
func (b *Book) All() iter.Seq2[Signature, Profile] {
	return func(yield func(Signature, Profile) bool) {
		for sig, p := range b.m {
			if !yield(sig, p.own()) {
				return
			}
		}
	}
}

// Put replaces what is recorded of a signature.
func (b *Book) Put(sig Signature, p Profile) {
	b.own()
	b.put(sig, p.own())
	b.dirty[sig] = struct{}{}
}
