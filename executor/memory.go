package executor

import (
	"fmt"
	"unsafe"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// view is where an input's bytes lie in this process.
type view struct {
	input string
	bytes []byte
}

// inputAt names the input that an address lies in.
func (r *run) inputAt(addr uintptr) (string, bool) {
	for _, v := range r.views {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(v.bytes)))
		if addr >= from && addr-from < uintptr(len(v.bytes)) {
			return v.input, true
		}
	}
	return "", false
}

// bytes returns a dataset's bytes.
func (r *run) bytes(input string, d *comms.Desc) ([]byte, error) {
	switch d.Place.Kind {
	case comms.PlaceInline:
		if uint64(len(d.Place.Bytes)) != d.Size {
			return nil, fmt.Errorf("the message holds %d bytes of %d", len(d.Place.Bytes), d.Size)
		}
		return d.Place.Bytes, nil
	}
	return nil, fmt.Errorf("the dataset is at a place of kind %d, which an executor cannot read", d.Place.Kind)
}

// store keeps an output's bytes.
func (r *run) store(_ uint32, b []byte) (comms.Place, error) {
	return comms.Place{Kind: comms.PlaceInline, Bytes: append([]byte(nil), b...)}, nil
}

// alloc returns room for an output of n bytes.
func (r *run) alloc(n int) ([]byte, error) {
	return value.Room(n), nil
}

func elemSize[T value.Number]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}
