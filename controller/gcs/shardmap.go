package gcs

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
)

// buckets is how many parts the space of jobs has. Jobs move between shards by
// the bucket, so the number never changes.
const buckets = 256

// ShardMap says which shard holds which bucket of jobs. It is stored in shard 0;
// whoever changes it raises Version.
type ShardMap struct {
	Version uint64
	Shards  uint32
	Bucket  []uint16 // shard of each bucket
}

func newShardMap(shards int) ShardMap {
	m := ShardMap{Version: 1, Shards: uint32(shards), Bucket: make([]uint16, buckets)}
	for i := range m.Bucket {
		m.Bucket[i] = uint16(i % shards)
	}
	return m
}

func (m *ShardMap) validate() error {
	if m.Shards == 0 || len(m.Bucket) != buckets {
		return fmt.Errorf("shard map version %d has %d shards and %d buckets: %w", m.Version, m.Shards, len(m.Bucket), ErrCorrupt)
	}
	for b, s := range m.Bucket {
		if uint32(s) >= m.Shards {
			return fmt.Errorf("shard map version %d puts bucket %d in shard %d of %d: %w", m.Version, b, s, m.Shards, ErrCorrupt)
		}
	}
	return nil
}

func (m *ShardMap) shard(job comms.JobID) int { return int(m.Bucket[xxh3.Hash(job[:])%buckets]) }
