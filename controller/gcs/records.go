package gcs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// ErrCorrupt says that a record cannot be read. It is wrapped with the record's key.
var ErrCorrupt = errors.New("record is corrupt")

func encodeRecord(v any) ([]byte, error) {
	b, err := msgpack.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

func decodeRecord[T any](b []byte) (v T, err error) {
	// msgpack panics on some malformed inputs of deep nesting instead of
	// returning an error; a bad record must not take the process down.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	if err := msgpack.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return v, nil
}

// encodeBatch writes the header's length and the header, then the events in their
// wire form: an agent's batch is stored as it came.
func encodeBatch(job comms.JobID, b *records.Batch) []byte {
	header := batchHeader{Agent: b.Agent, Incarnation: b.Incarnation, Epoch: b.Epoch, At: b.At, Reset: b.Reset, Why: b.Why, Known: true, Tasks: spanOf(b), Moved: b.Moved, Given: b.Given,
		Granted: b.Granting != records.GrantCounts, Granting: b.Granting, Reasons: b.Reasons, Cancelled: b.Cancelled, Differs: b.Differs, Lost: b.Lost, Unbegun: b.Unbegun}
	h := comms.AppendRecord(make([]byte, 0, 64), header.code)
	out := binary.AppendUvarint(make([]byte, 0, len(h)+64+64*len(b.Events)), uint64(len(h)))
	out = append(out, h...)
	return comms.Append(out, &comms.Events{First: b.First, Jobs: []comms.JobEvents{{Job: job, Events: b.Events}}})
}

// headerOf reads the header of an encoded batch, and returns what follows it.
func headerOf(v []byte) (h batchHeader, events []byte, err error) {
	n, k := binary.Uvarint(v)
	if k <= 0 || n > uint64(len(v)-k) {
		return h, nil, fmt.Errorf("%w: bad header length", ErrCorrupt)
	}
	h, err = decodeHeader(v[k : k+int(n)])
	return h, v[k+int(n):], err
}

// decodeBatch is the inverse of encodeBatch; byte slices in the events alias v.
func decodeBatch(number uint64, v []byte) (records.Batch, error) {
	h, events, err := headerOf(v)
	if err != nil {
		return records.Batch{}, fmt.Errorf("batch %d: %w", number, err)
	}
	m, err := comms.Decode(events)
	if err != nil {
		return records.Batch{}, fmt.Errorf("batch %d: %w: %w", number, ErrCorrupt, err)
	}
	ev, ok := m.(*comms.Events)
	if !ok || len(ev.Jobs) != 1 {
		return records.Batch{}, fmt.Errorf("batch %d: %w: holds a %T", number, ErrCorrupt, m)
	}
	granting := h.Granting
	if h.Granted && granting == records.GrantCounts {
		granting = records.GrantTries
	}
	return records.Batch{Number: number, Agent: h.Agent, Incarnation: h.Incarnation, Epoch: h.Epoch, At: h.At,
		Reset: h.Reset, Moved: h.Moved, Given: h.Given, Granting: granting, Reasons: h.Reasons, Cancelled: h.Cancelled, Differs: h.Differs, Why: h.Why, Lost: h.Lost, Unbegun: h.Unbegun, First: ev.First, Events: ev.Jobs[0].Events}, nil
}
