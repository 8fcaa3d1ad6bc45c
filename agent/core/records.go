package core

import (
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// The end of a called task is told with a record: its parameters, arguments and results, those
// that are small with their bytes. Nothing of it is kept in the row: all is there when it ends.

const (
	// mostReported is how many happenings wait for the link to an owner at which ends of calls are
	// told to it without records.
	mostReported = 1 << 16
	// recordChunk is how much memory many records share.
	recordChunk = 16 << 10
)

// recorder writes the records of calls. The last of its memory is in use by none.
type recorder struct{ chunk []byte }

// of is the record of a row whose end is told now.
func (m *recorder) of(j *job, t taskIndex, well bool) []byte {
	w := j.dyn.rows.at(t)
	if len(w.args) > comms.RecordItems || len(w.shape.group.Outputs) > comms.RecordItems {
		return comms.RecordWithout(comms.RecordMany)
	}
	if cap(m.chunk)-len(m.chunk) < 2*comms.RecordMost {
		m.chunk = make([]byte, 0, recordChunk)
	}
	rw := comms.RecordWriter{B: m.chunk[len(m.chunk):]}
	rw.Begin(w.with, len(w.args))
	for i := range w.args {
		a := &w.args[i]
		d := &a.desc
		if a.data != nil {
			d = &a.data.desc
		}
		if a.form == argRead {
			rw.Read(a.port)
		} else {
			rw.Arg(a.port, a.form == argPut, d)
		}
	}
	var there [4]*dataset
	results := there[:0]
	for o := range w.shape.group.Outputs {
		if d := j.data[comms.DatasetRef{Task: t, Output: uint32(o)}]; d != nil && well && w.shape.group.Outputs[o].Generate == dag.GenerateNone {
			results = append(results, d)
		}
	}
	rw.Results(len(results))
	for _, d := range results {
		rw.Result(&d.desc)
	}
	if n := len(m.chunk) + len(rw.B); n <= cap(m.chunk) {
		m.chunk = m.chunk[:n]
	}
	return rw.B[:len(rw.B):len(rw.B)]
}

// metBy tells how many of its calls had ended when the last run of a row began to call.
func (j *job) metBy(e *comms.Event) uint64 {
	if by := j.callers[e.Task]; by != nil {
		return by.met
	}
	if e.Called != nil { // it ran at another agent
		return e.Called.Met
	}
	return 0
}
