package core

// pieces says of each piece of a copy whether it is missing, asked for, or here.
// All have the size of a chunk but the last.
type pieces struct {
	size, chunk uint64
	state       []pieceState
	low         int // no piece before it is missing
	left        int // pieces that are not here
}

type pieceState uint8

const (
	missing pieceState = iota
	asked
	here
)

func newPieces(size, chunk uint64) pieces {
	n := int((size + chunk - 1) / chunk)
	return pieces{size: size, chunk: chunk, state: make([]pieceState, n), left: n}
}

// take marks the first missing piece as asked for. The order is what lets a chain
// of receivers run close behind each other.
func (p *pieces) take() (int, bool) {
	for ; p.low < len(p.state); p.low++ {
		if p.state[p.low] == missing {
			p.state[p.low] = asked
			return p.low, true
		}
	}
	return 0, false
}

// giveBack makes a piece that was asked for missing again.
func (p *pieces) giveBack(i int) {
	p.state[i] = missing
	p.low = min(p.low, i)
}

// arrive marks a piece that was asked for as here.
func (p *pieces) arrive(i int) {
	p.state[i] = here
	p.left--
}

// span returns where piece i lies.
func (p *pieces) span(i int) (offset, n uint64) {
	offset = uint64(i) * p.chunk
	return offset, min(p.chunk, p.size-offset)
}

// has tells whether all of n bytes at offset are here; they lie within the copy.
func (p *pieces) has(offset, n uint64) bool {
	for i := offset / p.chunk; i*p.chunk < offset+n; i++ {
		if p.state[i] != here {
			return false
		}
	}
	return true
}
