package gcs

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// Records that are written with every job, or every batch, are coded as messages
// are: arrays of fields, without reflection. Fields are only added, at the end.
// Records that older builds wrote are msgpack maps.

type coded interface{ code(*comms.Coder) }

type (
	jobRow      records.Job
	seenRow     records.Seen
	datasetRow  records.Dataset
	batchHeader struct {
		Agent       string
		Incarnation uint64
		Epoch       uint64
		At          int64
		Reset       []comms.Range
		Why         string
		Known       bool          // Tasks is set: older builds did not
		Tasks       []comms.Range // none, or one: the numbers of all tasks that the batch is of lie in it
		Moved       []comms.Range
		Given       []records.Assignment
		Granted     bool // what starts over is numbered in a way that is not the oldest
		Reasons     []records.Reason
		Granting    records.Granting // which; 0 of older builds
		Cancelled   []comms.Range
		Differs     []records.Difference
		Lost        []string
		Unbegun     []records.Assignment
	}
)

func (r *jobRow) code(c *comms.Coder) {
	c.Struct(30, func(c *comms.Coder) {
		c.ID((*[16]byte)(&r.ID))
		comms.String(c, &r.Name)
		comms.Uint(c, &r.Phase)
		comms.String(c, &r.Tenant)
		comms.Int(c, &r.Priority)
		comms.Uint(c, &r.Weight)
		comms.String(c, &r.Dir)
		comms.Slice(c, &r.Labels, comms.String[string])
		c.Hash(&r.GraphHash)
		comms.Int(c, &r.Submitted)
		comms.Int(c, &r.Started)
		comms.Int(c, &r.Ended)
		comms.Uint(c, &r.Epoch)
		comms.String(c, &r.Agent)
		comms.Uint(c, &r.Incarnation)
		comms.Uint(c, &r.Batches)
		comms.String(c, &r.Cancel)
		comms.Pointer(c, &r.Error, func(c *comms.Coder, e *comms.TaskError) { comms.Part(c, e) })
		codeTotals(c, &r.Totals)
		comms.Slice(c, &r.Groups, codeCounts)
		comms.Uint(c, &r.Stored)
		c.Bool(&r.Keep)
		comms.Uint(c, &r.JobIncarnation)
		comms.Slice(c, &r.Assignments, codeAssignment)
		c.Bool(&r.Homeless)
		comms.Slice(c, &r.Packages, (*comms.Coder).Hash)
		comms.Int(c, &r.Ran)
		c.Bool(&r.Fails)
		comms.Uint(c, &r.Differs)
		comms.String(c, &r.Differing)
	})
}

func codeAssignment(c *comms.Coder, f *records.Assignment) {
	c.Struct(4, func(c *comms.Coder) {
		comms.String(c, &f.Agent)
		comms.Uint(c, &f.Incarnation)
		comms.Uint(c, &f.From)
		comms.Slice(c, &f.Run, codeRange)
	})
}

func codeRange(c *comms.Coder, r *comms.Range) { comms.Part(c, r) }

func codeTotals(c *comms.Coder, t *records.Totals) {
	c.Struct(8, func(c *comms.Coder) {
		for _, n := range []*uint64{&t.Tasks, &t.Done, &t.Failed, &t.BytesOut, &t.Copied, &t.Spilled} {
			comms.Uint(c, n)
		}
		comms.Int(c, &t.TaskTime)
		comms.Part(c, &t.Device)
	})
}

func codeCounts(c *comms.Coder, g *comms.GroupCounts) {
	c.Struct(9, func(c *comms.Coder) {
		comms.String(c, &g.Group)
		for _, n := range []*uint64{&g.Total, &g.Ready, &g.Running, &g.Done, &g.Failed, &g.Skipped, &g.Cancelled, &g.Retries} {
			comms.Uint(c, n)
		}
	})
}

func (r *seenRow) code(c *comms.Coder) {
	c.Struct(2, func(c *comms.Coder) {
		comms.Uint(c, &r.Incarnation)
		comms.Uint(c, &r.UpTo)
	})
}

func (r *datasetRow) code(c *comms.Coder) {
	c.Struct(2, func(c *comms.Coder) {
		comms.Part(c, &r.Desc)
		comms.String(c, &r.Agent)
	})
}

func (h *batchHeader) code(c *comms.Coder) {
	c.Struct(17, func(c *comms.Coder) {
		comms.String(c, &h.Agent)
		comms.Uint(c, &h.Incarnation)
		comms.Uint(c, &h.Epoch)
		comms.Int(c, &h.At)
		comms.Slice(c, &h.Reset, codeRange)
		comms.String(c, &h.Why)
		c.Bool(&h.Known)
		comms.Slice(c, &h.Tasks, codeRange)
		comms.Slice(c, &h.Moved, codeRange)
		comms.Slice(c, &h.Given, codeAssignment)
		c.Bool(&h.Granted)
		comms.Slice(c, &h.Reasons, func(c *comms.Coder, r *records.Reason) {
			c.Struct(2, func(c *comms.Coder) {
				comms.String(c, &r.Text)
				comms.Slice(c, &r.Tasks, codeRange)
			})
		})
		comms.Uint(c, &h.Granting)
		comms.Slice(c, &h.Cancelled, codeRange)
		comms.Slice(c, &h.Differs, codeDifference)
		comms.Slice(c, &h.Lost, func(c *comms.Coder, name *string) { comms.String(c, name) })
		comms.Slice(c, &h.Unbegun, codeAssignment)
	})
}

func codeDifference(c *comms.Coder, d *records.Difference) {
	c.Struct(6, func(c *comms.Coder) {
		comms.Uint(c, &d.Ref.Task)
		comms.Uint(c, &d.Ref.Output)
		comms.Uint(c, &d.Ref.Element)
		comms.Uint(c, &d.Attempt)
		comms.Uint(c, &d.Was)
		comms.Uint(c, &d.Is)
	})
}

// spanOf returns the range of all tasks of a batch, if there is any.
func spanOf(b *records.Batch) (span []comms.Range) {
	widen := func(first, last dag.TaskIndex) {
		if span == nil {
			span = []comms.Range{{First: first, Last: last}}
		}
		span[0].First, span[0].Last = min(span[0].First, first), max(span[0].Last, last)
	}
	for _, r := range b.Reset {
		widen(r.First, r.Last)
	}
	for _, r := range b.Moved {
		widen(r.First, r.Last)
	}
	for _, r := range b.Cancelled {
		widen(r.First, r.Last)
	}
	for _, why := range b.Reasons {
		for _, r := range why.Tasks {
			widen(r.First, r.Last)
		}
	}
	for i := range b.Events {
		if first, last, ok := b.Events[i].Tasks(); ok {
			widen(first, last)
		}
	}
	return span
}

// asMap tells whether a record is of an older build.
func asMap(b []byte) bool { return len(b) > 0 && (b[0]&0xf0 == 0x80 || b[0] == 0xde || b[0] == 0xdf) }

// decodeInto reads a coded record.
func decodeInto(b []byte, v coded) error {
	if err := comms.DecodeRecord(b, v.code); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

func decodeJob(b []byte) (r records.Job, err error) {
	if asMap(b) {
		return decodeRecord[records.Job](b)
	}
	err = decodeInto(b, (*jobRow)(&r))
	return r, err
}

func decodeSeen(b []byte) (r records.Seen, err error) {
	if asMap(b) {
		return decodeRecord[records.Seen](b)
	}
	err = decodeInto(b, (*seenRow)(&r))
	return r, err
}

func decodeDataset(b []byte) (r records.Dataset, err error) {
	if asMap(b) {
		return decodeRecord[records.Dataset](b)
	}
	err = decodeInto(b, (*datasetRow)(&r))
	return r, err
}

func decodeHeader(b []byte) (h batchHeader, err error) {
	if asMap(b) {
		return decodeRecord[batchHeader](b)
	}
	err = decodeInto(b, &h)
	return h, err
}
