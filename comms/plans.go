package comms

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cascade-run/cascade/dag"
)

// A plan's entries for tasks travel as columns (docs/protocol/encoding.md, "Columns"):
// tasks of a group have one rank, and paths go through groups in even steps.

// maxPlanned is the most tasks that a plan in a message is of: its columns may be
// of few bytes, and the memory that they ask for is bounded by this alone.
const maxPlanned = 1 << 23

// AppendRanks encodes the ranks of tasks behind b, for Assign.Ranks.
func AppendRanks(b []byte, ranks []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(ranks)))
	for len(ranks) > 0 {
		n := 1
		for n < len(ranks) && math.Float64bits(ranks[n]) == math.Float64bits(ranks[0]) {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(ranks[0]))
		ranks = ranks[n:]
	}
	return b
}

// ReadRanks decodes what AppendRanks writes; no bytes are no ranks.
func ReadRanks(b []byte) ([]float64, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := columnReader{b: b}
	ranks := r.ranks()
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("ranks of tasks: %w", err)
	}
	return ranks, nil
}

func (r *columnReader) ranks() []float64 {
	size := r.uvarint()
	if size > maxPlanned {
		r.fail()
		return nil
	}
	out := make([]float64, size)
	for left := out; len(left) > 0; {
		n := r.uvarint()
		if n == 0 || n > uint64(len(left)) || len(r.b) < 8 {
			r.fail()
			return nil
		}
		rank := math.Float64frombits(binary.LittleEndian.Uint64(r.b))
		r.b = r.b[8:]
		for i := range left[:n] {
			left[i] = rank
		}
		left = left[n:]
	}
	return out
}

// AppendPaths encodes paths behind b, for Assign.Fuse.
func AppendPaths(b []byte, paths [][]dag.TaskIndex) []byte {
	tasks := 0
	for _, p := range paths {
		tasks += len(p)
	}
	b = binary.AppendUvarint(b, uint64(len(paths)))
	b = binary.AppendUvarint(b, uint64(tasks))
	for _, p := range paths {
		b = binary.AppendUvarint(b, uint64(len(p)))
		for len(p) > 0 {
			n, step := 1, int64(0)
			if len(p) > 1 {
				step = int64(p[1]) - int64(p[0])
			}
			for n < len(p) && int64(p[n])-int64(p[n-1]) == step {
				n++
			}
			b = binary.AppendUvarint(b, uint64(n))
			b = binary.AppendUvarint(b, uint64(p[0]))
			b = binary.AppendUvarint(b, zigzag(step))
			p = p[n:]
		}
	}
	return b
}

// ReadPaths decodes what AppendPaths writes; no bytes are no paths.
func ReadPaths(b []byte) ([][]dag.TaskIndex, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := columnReader{b: b}
	paths := r.paths()
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("planned paths: %w", err)
	}
	return paths, nil
}

func (r *columnReader) paths() [][]dag.TaskIndex {
	count, tasks := r.uvarint(), r.uvarint()
	if tasks > maxPlanned || count > uint64(len(r.b)) { // each path takes a byte at least
		r.fail()
		return nil
	}
	out, all := make([][]dag.TaskIndex, count), make([]dag.TaskIndex, tasks)
	for k := range out {
		size := r.uvarint()
		if size > uint64(len(all)) {
			r.fail()
			return nil
		}
		out[k] = all[:size:size]
		all = all[size:]
		for left := out[k]; len(left) > 0; {
			n, first, step := r.uvarint(), int64(r.uvarint()), unzigzag(r.uvarint())
			last := first + step*int64(n-1)
			if n == 0 || n > uint64(len(left)) || first < 0 || first > math.MaxUint32 || step > math.MaxUint32 || step < -math.MaxUint32 ||
				last < 0 || last > math.MaxUint32 {
				r.fail()
				return nil
			}
			for i := range left[:n] {
				left[i] = dag.TaskIndex(first + int64(i)*step)
			}
			left = left[n:]
		}
	}
	if len(all) > 0 {
		r.fail()
	}
	return out
}
