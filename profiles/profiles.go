package profiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
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

// Sample is what one run cost: seconds, bytes of all outputs, and private memory
// at its peak in bytes (0 unknown).
type Sample struct {
	Seconds float64
	Bytes   float64
	Memory  float64
}

// maxCost bounds what is recorded: its square, in a variance, must stay finite,
// or the profile could not be read again.
const maxCost = 1e100

// window is how many runs a mean looks back on: what is older fades, so that a
// profile follows a task that changes.
const window = 50

// Profile sums up runs. Means and variances are of the last runs, weighted
// exponentially once there are more than 50.
type Profile struct {
	Count       uint64
	Seconds     float64 // mean
	SecondsVar  float64 // variance
	Bytes       float64 // mean
	BytesVar    float64
	Memory      float64 // mean of the known peaks
	MemoryCount uint64
	MemoryPeak  float64 // highest ever
}

// Add returns the profile with one more run. The mean and variance are updated
// as in West, Updating mean and variance estimates: an improved method (CACM 1979).
func (p Profile) Add(s Sample) Profile {
	p.Count++
	w := 1 / float64(min(p.Count, window))
	p.Seconds, p.SecondsVar = update(p.Seconds, p.SecondsVar, s.Seconds, w)
	p.Bytes, p.BytesVar = update(p.Bytes, p.BytesVar, s.Bytes, w)
	if s.Memory > 0 {
		p.MemoryCount++
		p.Memory += (s.Memory - p.Memory) / float64(min(p.MemoryCount, window))
		p.MemoryPeak = max(p.MemoryPeak, s.Memory)
	}
	return p
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
	Basis   Basis
}

// Basis says what a prediction rests on.
type Basis uint8

// The bases of a prediction.
const (
	BasisDefault  Basis = iota // nothing is known: Default
	BasisFunction              // other tasks of the same function
	BasisTask                  // earlier runs of this task's group in this job
)

func (b Basis) String() string {
	return [...]string{"default", "function", "task"}[b]
}

// Default is the prediction for tasks of which nothing is known: a second and a
// mebibyte, between the no-ops and the models that people run.
func Default() Prediction { return Prediction{Seconds: 1, Spread: 1, Bytes: 1 << 20} }

// Snapshot is an immutable set of profiles. The zero value is empty.
type Snapshot struct {
	m       map[Signature]Profile
	outputs map[Signature]map[string]float64 // bytes of each output, where that is known
}

// Predict returns what a task of the signature is expected to cost.
func (s Snapshot) Predict(sig Signature) Prediction {
	if p, ok := s.m[sig]; ok {
		return p.predict(BasisTask)
	}
	if p, ok := s.m[Signature{Function: sig.Function}]; ok && sig.Function != "" {
		return p.predict(BasisFunction)
	}
	return Default()
}

func (p Profile) predict(b Basis) Prediction {
	return Prediction{Seconds: p.Seconds, Spread: math.Sqrt(p.SecondsVar), Bytes: p.Bytes, Memory: p.Memory, Basis: b}
}

// Len returns the number of signatures.
func (s Snapshot) Len() int { return len(s.m) }

// Book records runs. It belongs to one goroutine.
type Book struct {
	m      map[Signature]Profile
	dirty  map[Signature]struct{}
	shared bool // a Snapshot refers to m
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{m: map[Signature]Profile{}, dirty: map[Signature]struct{}{}}
}

// Record takes in one run. It also counts for the function in all jobs. A cost
// that is negative or no number is not taken.
func (b *Book) Record(sig Signature, s Sample) {
	b.RecordAll(sig, func(yield func(Sample) bool) { yield(s) })
}

// RecordAll is Record for several runs in order. The profiles are looked up once.
func (b *Book) RecordAll(sig Signature, samples iter.Seq[Sample]) {
	b.own()
	all := Signature{Function: sig.Function}
	both := sig.Function != "" && sig != all
	own, function, taken := b.m[sig], b.m[all], false
	for s := range samples {
		if s.ok() {
			own, function, taken = own.Add(s), function.Add(s), true
		}
	}
	if !taken {
		return
	}
	b.m[sig] = own
	b.dirty[sig] = struct{}{}
	if both {
		b.m[all] = function
		b.dirty[all] = struct{}{}
	}
}

func (s *Sample) ok() bool {
	for _, x := range [...]float64{s.Seconds, s.Bytes, s.Memory} {
		if !(x >= 0 && x <= maxCost) { // also refuses NaN
			return false
		}
	}
	return true
}

func (b *Book) own() {
	if b.shared {
		b.m, b.shared = maps.Clone(b.m), false
	}
}

// Snapshot returns what is recorded now. It costs nothing; the next Record copies.
func (b *Book) Snapshot() Snapshot {
	b.shared = true
	return Snapshot{m: b.m}
}

// SnapshotOf returns what is recorded of some signatures and of their functions.
// It costs what it returns, however much the book holds; the next Record copies nothing.
func (b *Book) SnapshotOf(sigs iter.Seq[Signature]) Snapshot {
	m := map[Signature]Profile{}
	for sig := range sigs {
		for _, s := range []Signature{sig, {Function: sig.Function}} {
			if p, ok := b.m[s]; ok {
				m[s] = p
			}
		}
	}
	return Snapshot{m: m}
}

// Dirty returns, encoded by key, the profiles that changed since the last call.
func (b *Book) Dirty() map[string][]byte {
	out := make(map[string][]byte, len(b.dirty))
	for sig := range b.dirty {
		out[sig.Key()] = b.m[sig].Encode()
	}
	clear(b.dirty)
	return out
}

// Load puts a stored profile into the book.
func (b *Book) Load(key string, v []byte) error {
	sig, err := ParseKey(key)
	if err != nil {
		return err
	}
	p, err := Decode(v)
	if err != nil {
		return fmt.Errorf("profile %q: %w", key, err)
	}
	b.own()
	b.m[sig] = p
	return nil
}

// ErrMalformed says that bytes are no profile.
var ErrMalformed = errors.New("profile is malformed")

const encodedSize = 1 + 8*8

// Encode returns version 1 of the stored form: the version and eight
// little-endian words. Later versions append.
func (p Profile) Encode() []byte {
	b := make([]byte, 0, encodedSize)
	b = append(b, 1)
	b = binary.LittleEndian.AppendUint64(b, p.Count)
	b = binary.LittleEndian.AppendUint64(b, p.MemoryCount)
	for _, f := range []float64{p.Seconds, p.SecondsVar, p.Bytes, p.BytesVar, p.Memory, p.MemoryPeak} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// Decode reads what Encode writes, in this version or a later one.
func Decode(b []byte) (Profile, error) {
	if len(b) < encodedSize || b[0] == 0 {
		return Profile{}, ErrMalformed
	}
	b = b[1:]
	word := func() uint64 {
		w := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return w
	}
	p := Profile{Count: word(), MemoryCount: word()}
	for _, f := range []*float64{&p.Seconds, &p.SecondsVar, &p.Bytes, &p.BytesVar, &p.Memory, &p.MemoryPeak} {
		if *f = math.Float64frombits(word()); !(*f >= 0 && *f <= math.MaxFloat64) {
			return Profile{}, ErrMalformed
		}
	}
	return p, nil
}
