package comms

import (
	"encoding/binary"
	"io"

	"github.com/zeebo/xxh3"
)

// HashOf is the hash that compares datasets: xxh3-128 of their bytes.
func HashOf(b []byte) Hash {
	sum := xxh3.Hash128(b).Bytes()
	return Hash(append([]byte{HashXXH3}, sum[:]...))
}

// HashFrom is HashOf for what a reader gives.
func HashFrom(r io.Reader) (Hash, error) {
	h := xxh3.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	sum := h.Sum128().Bytes()
	return Hash(append([]byte{HashXXH3}, sum[:]...)), nil
}

// Sum stands for a dataset's bytes where many are compared: the first eight bytes of
// its hash, which is made here of one whose bytes are in the message. It is never 0
// but for a dataset without hash, of which nothing can be said.
//
// Equal bytes must have one sum whoever made them, so they must have one kind of hash: what
// a task's executor leaves in shared memory it hashes in one way, and what is in a message,
// which its size decides, everybody does by xxh3.
func (d *Desc) Sum() uint64 {
	switch {
	case len(d.Hash) > 8:
		return max(binary.BigEndian.Uint64([]byte(d.Hash[1:9])), 1)
	case d.Place.Kind == PlaceInline:
		sum := xxh3.Hash128(d.Place.Bytes).Bytes()
		return max(binary.BigEndian.Uint64(sum[:8]), 1)
	}
	return 0
}

// Read stands for what a task has read: it takes in one dataset of which the sum is
// known, in any order. See Cause.Number.
func Read(sofar uint64, ref DatasetRef, sum uint64) uint64 {
	if sum == 0 {
		return sofar
	}
	var b [24]byte
	binary.BigEndian.PutUint32(b[:], uint32(ref.Task))
	binary.BigEndian.PutUint32(b[4:], ref.Output)
	binary.BigEndian.PutUint64(b[8:], ref.Element)
	binary.BigEndian.PutUint64(b[16:], sum)
	return sofar + xxh3.Hash(b[:])
}
