package comms

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"github.com/cascade-run/cascade/dag"
)

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName tells what is wrong with the name of a controller or agent (what): it
// stands in messages, records and the names of files.
func CheckName(what, name string) error {
	if nameRule.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%s name %q: want letters, digits, '.', '_' and '-', a letter or digit first, at most 63", what, name)
}

// JobID names a job: a UUIDv7 made by the client, so that a repeated submit is the same job.
type JobID [16]byte

// NewJobID returns a fresh JobID. It reads the clock and the system's random source.
func NewJobID() (JobID, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return JobID{}, fmt.Errorf("make job id: %w", err)
	}
	return JobID(u), nil
}

// ParseJobID reads the form that String writes.
func ParseJobID(s string) (JobID, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return JobID{}, fmt.Errorf("job id %q: want a UUID such as 0190f3a1-7c00-7000-8000-000000000000", s)
	}
	return JobID(u), nil
}

func (j JobID) String() string { return uuid.UUID(j).String() }

// IsZero tells whether j is the zero JobID, which names no job.
func (j JobID) IsZero() bool { return j == JobID{} }

// TaskID names a task of a job.
type TaskID struct {
	Job   JobID         // of which it is a part
	Index dag.TaskIndex // in the job's graph
}

func (t TaskID) String() string { return fmt.Sprintf("%s/%d", t.Job, t.Index) }

// DatasetRef names a dataset within its job. Element is 0 for an output that is not generated.
type DatasetRef struct {
	Task    dag.TaskIndex // the task that makes it
	Output  uint32        // which of its group's outputs, from 0
	Element uint64        // of a generated output, from 0
}

// Compare orders references: by task, output and element.
func (r DatasetRef) Compare(s DatasetRef) int {
	return cmp.Or(cmp.Compare(r.Task, s.Task), cmp.Compare(r.Output, s.Output), cmp.Compare(r.Element, s.Element))
}

// DatasetID names a dataset. Its name holds no attempt: each copy carries one.
type DatasetID struct {
	Job        JobID // of which it is a part
	DatasetRef       // its name within the job
}

func (d DatasetID) String() string {
	return fmt.Sprintf("%s/%d.%d[%d]", d.Job, d.Task, d.Output, d.Element)
}

// Hash is a content hash. The first byte tags the algorithm: see HashXXH3 and those beside it.
type Hash string

// Tags of hash algorithms.
const (
	HashXXH3    = 'x' // xxh3-128: compares datasets
	HashBLAKE2b = '2' // BLAKE2b-128: the same, of datasets that Python tasks left in shared memory
	HashBLAKE3  = 'b' // BLAKE3-256: names graphs that travel as blobs
	HashSHA256  = 's' // SHA-256: names packages, so that a client can whatever its language
)

func (h Hash) String() string {
	if h == "" {
		return ""
	}
	return string(h[0]) + ":" + hex.EncodeToString([]byte(h[1:]))
}

// ExecutorID numbers the executors of one agent; never reused while the agent's state folder lives.
type ExecutorID uint32

// RunID numbers the dispatches of one agent incarnation: one attempt at one task
// on one executor. It fences late answers.
type RunID uint64
