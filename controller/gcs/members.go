package gcs

import (
	"encoding/binary"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// Member is a certificate that was issued. Times are nanoseconds since 1970.
type Member struct {
	Serial  string // in hexadecimal
	Role    pki.Role
	Name    string
	Issued  int64
	Expires int64
	Revoked int64 // 0: it is not
}

func (m *Member) code(c *comms.Coder) {
	c.Struct(6, func(c *comms.Coder) {
		comms.String(c, &m.Serial)
		comms.String(c, &m.Role)
		comms.String(c, &m.Name)
		comms.Int(c, &m.Issued)
		comms.Int(c, &m.Expires)
		comms.Int(c, &m.Revoked)
	})
}

// PutToken stores a token, or removes it when it admits no more members. It
// does not wait for room on a full disk: the error then matches ErrNoSpace.
func (s *Store) PutToken(g pki.Grant, done func(error)) {
	e := entry{key: nameKey(tableTokens, string(g.ID[:]))}
	if g.Uses > 0 {
		var err error
		if e.value, err = g.Encode(); err != nil {
			done(fmt.Errorf("store a token: %w", err))
			return
		}
	}
	s.submitNow(write{entries: []entry{e}, done: done})
}

// submitNow submits a write to the first shard that a full disk refuses.
func (s *Store) submitNow(w write) {
	// A shard that waits for room takes nothing from its queue: it could not refuse.
	if err := s.space.refusal(); err != nil {
		go w.done(err)
		return
	}
	w.refuse = true
	s.shards[0].submit(w)
}

// Tokens reads every token.
func (s *Store) Tokens() ([]pki.Grant, error) {
	return rows(s.shards[0], []byte{byte(tableTokens)}, pki.DecodeGrant)
}

// PutMembers stores certificates, all or none, without waiting for room on a full
// disk.
func (s *Store) PutMembers(ms []Member, done func(error)) {
	w := write{done: done}
	for i := range ms {
		w.entries = append(w.entries, entry{memberKey(&ms[i]), comms.AppendRecord(nil, ms[i].code)})
	}
	s.submitNow(w)
}

// DropMembers forgets certificates.
func (s *Store) DropMembers(ms []Member, done func(error)) {
	w := write{done: done}
	for i := range ms {
		w.entries = append(w.entries, entry{key: memberKey(&ms[i])})
	}
	s.shards[0].submit(w)
}

// memberKey orders certificates by their end, those of one end by serial number.
func memberKey(m *Member) []byte {
	k := binary.BigEndian.AppendUint64([]byte{byte(tableMembers)}, uint64(m.Expires))
	return append(k, m.Serial...)
}

// Members reads every certificate, those that expire first before others.
func (s *Store) Members() ([]Member, error) {
	return rows(s.shards[0], []byte{byte(tableMembers)}, func(b []byte) (m Member, err error) {
		if err = comms.DecodeRecord(b, m.code); err != nil {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return m, err
	})
}
