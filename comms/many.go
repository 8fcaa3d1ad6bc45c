package comms

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"
)

// FeatureMany is the feature of a peer that reads Many.
const FeatureMany = "many"

// Many is several messages of one type, of different jobs, that differ in little:
// the receiver takes them as if each had come by itself, in order. They are
// Submit, Accepted, Progress, Assign or Retain. It goes to peers with FeatureMany.
type Many struct {
	Like    []byte // the first message, encoded
	Jobs    []byte // Job of each message: 16 bytes each
	Numbers []byte // what else differs: columns
}

// Type returns TypeMany.
func (*Many) Type() Type { return TypeMany }

func (m *Many) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		c.Bytes(&m.Like)
		c.Bytes(&m.Jobs)
		c.Bytes(&m.Numbers)
	})
}

// maxDiffer is how many numbers differ at most between messages of a Many.
const maxDiffer = 4

// alike is a message of a type that Many may have. Its numbers are all that
// differs beside its job.
type alike interface {
	Message
	job() *JobID
	get(to *[maxDiffer]uint64) (n int)
	put(from *[maxDiffer]uint64)
	with(other Message) bool // other is of the type and has all else in common
	copies(n int) []alike
}

// Bunch joins messages into one Many. The zero value is empty.
type Bunch struct {
	first alike
	last  [maxDiffer]uint64
	jobs  []byte
	diffs [maxDiffer][]uint64 // by how much each number is above the one before, in zigzag
}

// Add adds a message. It is false when those that are there must be taken first,
// and for a message that always goes alone.
func (b *Bunch) Add(m Message) bool {
	a, ok := m.(alike)
	var now [maxDiffer]uint64
	switch {
	case !ok:
		return false
	case b.first == nil:
		if !a.with(m) {
			return false
		}
		b.first = a
		a.get(&b.last)
		now = b.last
	case len(b.jobs) >= 16*MaxSteps || !b.first.with(m):
		return false
	default:
		a.get(&now)
	}
	b.jobs = append(b.jobs, a.job()[:]...)
	for i, n := 0, a.get(&now); i < n; i++ {
		b.diffs[i] = append(b.diffs[i], zigzag(int64(now[i]-b.last[i])))
	}
	b.last = now
	return true
}

// Take returns what was added, nil when nothing was, and empties the bunch.
func (b *Bunch) Take() Message {
	first, n := b.first, len(b.jobs)/16
	if b.first = nil; n < 2 {
		b.clear()
		if first == nil {
			return nil
		}
		return first
	}
	m := &Many{Like: Encode(first), Jobs: slices.Clone(b.jobs), Numbers: make([]byte, 0, 8*n)}
	var numbers [maxDiffer]uint64
	for i := range first.get(&numbers) {
		m.Numbers = appendColumn(m.Numbers, n, func(k int) uint64 { return b.diffs[i][k] })
	}
	b.clear()
	return m
}

func (b *Bunch) clear() {
	b.jobs = b.jobs[:0]
	for i := range b.diffs {
		b.diffs[i] = b.diffs[i][:0]
	}
}

// All returns the messages. Slices that they share must not be changed.
func (m *Many) All() ([]Message, error) {
	like, err := Decode(m.Like)
	if err != nil {
		return nil, fmt.Errorf("many messages: %w", err)
	}
	first, ok := like.(alike)
	n := len(m.Jobs) / 16
	if !ok || n == 0 || n > MaxSteps || len(m.Jobs)%16 > 0 || !first.with(first) {
		return nil, fmt.Errorf("many messages: %w", ErrMalformed)
	}
	all := first.copies(n)
	numbers := make([][maxDiffer]uint64, n)
	var last [maxDiffer]uint64
	r := columnReader{b: m.Numbers}
	for i := range first.get(&last) {
		v := last[i]
		r.column(n, func(k int, d uint64) {
			v += uint64(unzigzag(d))
			numbers[k][i] = v
		})
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("many messages: %w", err)
	}
	out := make([]Message, n)
	for k, one := range all {
		one.put(&numbers[k])
		copy(one.job()[:], m.Jobs[16*k:])
		out[k] = one
	}
	return out, nil
}

// DecodeEach decodes a message and calls f for it, or for each that it stands for.
// Errors are those of Decode.
func DecodeEach(b []byte, f func(Message)) error {
	m, err := Decode(b)
	if err != nil {
		return err
	}
	many, ok := m.(*Many)
	if !ok {
		f(m)
		return nil
	}
	all, err := many.All()
	for _, m := range all {
		f(m)
	}
	return err
}

func copiesOf[T any, P interface {
	*T
	alike
}](m P, n int) []alike {
	all, out := make([]T, n), make([]alike, n)
	for i := range all {
		all[i] = *m
		out[i] = P(&all[i])
	}
	return out
}

// same tells whether two slices are one, or both empty.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || unsafe.SliceData(a) == unsafe.SliceData(b))
}

func (m *Submit) job() *JobID                     { return &m.Job }
func (m *Submit) get(to *[maxDiffer]uint64) int   { to[0] = m.Req; return 1 }
func (m *Submit) put(from *[maxDiffer]uint64)     { m.Req = from[0] }
func (m *Submit) copies(n int) []alike            { return copiesOf(m, n) }
func (m *Accepted) job() *JobID                   { return &m.Job }
func (m *Accepted) get(to *[maxDiffer]uint64) int { to[0] = m.Req; return 1 }
func (m *Accepted) put(from *[maxDiffer]uint64)   { m.Req = from[0] }
func (m *Accepted) copies(n int) []alike          { return copiesOf(m, n) }
func (m *Progress) job() *JobID                   { return &m.Job }
func (m *Assign) job() *JobID                     { return &m.Job }
func (m *Assign) get(to *[maxDiffer]uint64) int   { to[0] = m.JobIncarnation; return 1 }
func (m *Assign) put(from *[maxDiffer]uint64)     { m.JobIncarnation = from[0] }
func (m *Assign) copies(n int) []alike            { return copiesOf(m, n) }
func (m *Retain) job() *JobID                     { return &m.Job }
func (m *Retain) get(to *[maxDiffer]uint64) int   { to[0] = m.JobIncarnation; return 1 }
func (m *Retain) put(from *[maxDiffer]uint64)     { m.JobIncarnation = from[0] }
func (m *Retain) copies(n int) []alike            { return copiesOf(m, n) }

func (m *Progress) get(to *[maxDiffer]uint64) int {
	*to = [maxDiffer]uint64{m.Req, uint64(m.Started), uint64(m.Ended), uint64(m.TaskTime)}
	return 4
}

func (m *Progress) put(from *[maxDiffer]uint64) {
	m.Req, m.Started, m.Ended, m.TaskTime = from[0], int64(from[1]), int64(from[2]), int64(from[3])
}

// copies gives each message counts of its own: they go to users.
func (m *Progress) copies(n int) []alike {
	all := copiesOf(m, n)
	groups := make([]GroupCounts, 0, n*len(m.Groups))
	for _, one := range all {
		at := len(groups)
		groups = append(groups, m.Groups...)
		one.(*Progress).Groups = groups[at:len(groups):len(groups)]
	}
	return all
}

// maxAlikeGroups bounds what a message of many makes a receiver keep.
const maxAlikeGroups = 16

func (m *Submit) with(other Message) bool {
	o, ok := other.(*Submit)
	return ok && len(m.Graph)+len(o.Graph)+len(m.Params)+len(o.Params)+len(m.Labels)+len(o.Labels) == 0 && m.GraphHash == o.GraphHash && m.Dir == o.Dir && m.Tenant == o.Tenant &&
		m.Priority == o.Priority && m.Weight == o.Weight && m.Hold == o.Hold && same(m.Registry, o.Registry) && m.Watch == o.Watch &&
		m.Every == o.Every && m.Keep == o.Keep && m.Values == o.Values && len(m.Contents)+len(o.Contents) == 0 && m.Resume == nil && o.Resume == nil
}

func (m *Accepted) with(other Message) bool {
	o, ok := other.(*Accepted)
	return ok && m.Again == o.Again
}

func (m *Progress) with(other Message) bool {
	o, ok := other.(*Progress)
	return ok && m.Name == o.Name && m.Phase == o.Phase && m.Result == o.Result && m.Final == o.Final && len(m.Groups) <= maxAlikeGroups &&
		slices.Equal(m.Groups, o.Groups) && m.Error == nil && o.Error == nil && len(m.Events)+len(o.Events)+len(m.Values)+len(o.Values) == 0 && m.BytesOut == o.BytesOut &&
		m.Spilled == o.Spilled && m.Copied == o.Copied && m.Waits == o.Waits && m.Late == o.Late && m.Ran == o.Ran &&
		m.Device == o.Device && m.Differs == o.Differs && m.Differing == o.Differing
}

func (m *Assign) with(other Message) bool {
	o, ok := other.(*Assign)
	return ok && m.Epoch == o.Epoch && same(m.Graph, o.Graph) && m.GraphHash == o.GraphHash && m.Dir == o.Dir && m.fresh() && o.fresh() &&
		bytes.Equal(m.Ranks, o.Ranks) && bytes.Equal(m.Fuse, o.Fuse) && m.Priority == o.Priority && m.Weight == o.Weight && m.Tenant == o.Tenant && m.Hold == o.Hold &&
		same(m.Registry, o.Registry) && slices.Equal(m.Seconds, o.Seconds) && m.Larger == o.Larger && slices.Equal(m.Memory, o.Memory)
}

// fresh tells whether all of a job is assigned, in which nothing has happened.
func (m *Assign) fresh() bool {
	return len(m.Run)+len(m.Attempts)+len(m.Datasets)+len(m.Ends)+len(m.Ended)+len(m.Peers)+len(m.Fetch)+len(m.Adopt)+len(m.Tried)+len(m.Enlarged) == 0
}

func (m *Retain) with(other Message) bool {
	o, ok := other.(*Retain)
	return ok && len(m.Keep)+len(o.Keep) == 0
}
