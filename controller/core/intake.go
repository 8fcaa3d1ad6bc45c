package core

// intake keeps count of the numbered events of one incarnation of an agent: what was
// received, and how much of that is durable. An agent sends again what was not
// acknowledged, so events may come twice; it drops what was.
type intake struct {
	received  uint64   // the highest number
	committed uint64   // up to here each is durable; at most received
	batches   []*batch // received and not yet acknowledged, in order
}

// batch is one Events message on its way into the store.
type batch struct {
	upTo uint64 // the number of its last event
	left int    // commits not yet durable
}

// take adds a batch that ends with number upTo. It is false, and nothing changed,
// when all of it was received before.
func (in *intake) take(b *batch, upTo uint64) bool {
	if upTo <= in.received {
		return false
	}
	in.received, b.upTo = upTo, upTo
	in.batches = append(in.batches, b)
	return true
}

// durable moves committed up to the first batch of which something is not durable,
// and tells whether it moved.
func (in *intake) durable() (upTo uint64, moved bool) {
	before := in.committed
	for len(in.batches) > 0 && in.batches[0].left == 0 {
		in.committed = in.batches[0].upTo
		in.batches = in.batches[1:]
	}
	return in.committed, in.committed > before
}

// passed returns how many numbers from first on are at most seen.
func passed(first, seen uint64) uint64 {
	if seen < first {
		return 0
	}
	return seen - first + 1
}
