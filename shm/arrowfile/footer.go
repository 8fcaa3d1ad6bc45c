package arrowfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errDamaged = errors.New("damaged data")

const (
	fileMagic  = "ARROW1"
	fileTail   = 4 + len(fileMagic) // length of the footer and the mark
	maxNesting = 64
)

// checkFooter makes sure that the lengths in the footer of an Arrow file are possible. The reader allocates what
// they say before it looks further: without this, 248 bytes can ask for 35 GB and so end the process. The
// footer is a flatbuffer (https://flatbuffers.dev/internals); slots are those of Arrow's File.fbs and
// Schema.fbs. Reads beyond its end panic, which Read turns into an error. It returns the number of dictionaries.
func checkFooter(b []byte) (dictionaries int, err error) {
	if len(b) < len(fileMagic)+fileTail || string(b[len(b)-len(fileMagic):]) != fileMagic {
		return 0, fmt.Errorf("%d bytes do not end as an Arrow file does: %w", len(b), errDamaged)
	}
	end := len(b) - fileTail
	n := int64(binary.LittleEndian.Uint32(b[end:]))
	if n < 4 || n > int64(end) {
		return 0, fmt.Errorf("footer of %d in %d bytes: %w", n, len(b), errDamaged)
	}
	f := &footer{b: b[int64(end)-n : end]}
	root := table{f, f.offset(0)}
	dicts, err := root.vector(2, 24)
	if err != nil {
		return 0, err
	}
	if _, err := root.vector(3, 24); err != nil { // record batches
		return 0, err
	}
	at := root.slot(1)
	if at == 0 {
		return 0, fmt.Errorf("no schema: %w", errDamaged)
	}
	return len(dicts), table{f, f.offset(at)}.checkFields(1, 2, 0)
}

type footer struct {
	b      []byte
	fields int
}

// offset follows a reference.
func (f *footer) offset(at int) int { return at + int(binary.LittleEndian.Uint32(f.b[at:])) }

type table struct {
	*footer
	at int
}

// slot returns where a field of the table is, 0 when it is absent.
func (t table) slot(i int) int {
	vt := t.at - int(int32(binary.LittleEndian.Uint32(t.b[t.at:])))
	if 4+2*i >= int(binary.LittleEndian.Uint16(t.b[vt:])) {
		return 0
	}
	if off := int(binary.LittleEndian.Uint16(t.b[vt+4+2*i:])); off > 0 {
		return t.at + off
	}
	return 0
}

// vector returns where the references of a vector begin, after a check that its elements fit.
func (t table) vector(slot int, size int64) (refs []int, err error) {
	at := t.slot(slot)
	if at == 0 {
		return nil, nil
	}
	at = t.offset(at)
	n := int64(binary.LittleEndian.Uint32(t.b[at:]))
	if n > int64(len(t.b)-at-4)/size {
		return nil, fmt.Errorf("a vector of %d in a footer of %d bytes: %w", n, len(t.b), errDamaged)
	}
	refs = make([]int, n)
	for i := range refs {
		refs[i] = at + 4 + i*int(size)
	}
	return refs, nil
}

// checkFields checks the fields of a schema or of a nested field, and their metadata.
func (t table) checkFields(fields, metadata, depth int) error {
	if _, err := t.vector(metadata, 4); err != nil {
		return err
	}
	refs, err := t.vector(fields, 4)
	if err != nil {
		return err
	}
	// References may be shared, so that a small footer could still unfold to any size.
	if t.fields += len(refs); t.fields > len(t.b) || depth > maxNesting {
		return fmt.Errorf("%d fields, nested %d deep, in a footer of %d bytes: %w", t.fields, depth, len(t.b), errDamaged)
	}
	for _, at := range refs {
		if err := (table{t.footer, t.offset(at)}).checkFields(5, 6, depth+1); err != nil {
			return err
		}
	}
	return nil
}
