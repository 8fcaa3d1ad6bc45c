package value

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
)

// References in a value, such as futures, are an extension of msgpack: their place in the list that stands beside the bytes.

// RefExtension is the number of the extension.
const RefExtension = 0x52

// Ref is a reference that is decoded.
type Ref struct {
	Place uint64       // in the list beside the bytes
	Type  reflect.Type // of that to which it refers
}

// referring is what values are encoded to: it collects references.
type referring struct {
	bytes.Buffer
	found []any
}

// referred is what values are decoded from.
type referred struct {
	*bytes.Reader
	refer func(Ref) any
}

// errNoRefs is of a reference in bytes that stand alone.
var errNoRefs = errors.New("a future travels only in values that tasks are given, return or put")

// EncodeRef writes a reference within a value.
func EncodeRef(enc *msgpack.Encoder, ref any) error {
	to, ok := enc.Writer().(*referring)
	if !ok {
		return errNoRefs
	}
	b := binary.AppendUvarint(nil, uint64(len(to.found)))
	to.found = append(to.found, ref)
	if err := enc.EncodeExtHeader(RefExtension, len(b)); err != nil {
		return err
	}
	_, err := to.Write(b)
	return err
}

// DecodeRef reads a reference to something of a type within a value; nil is that of null.
func DecodeRef(dec *msgpack.Decoder, t reflect.Type) (any, error) {
	if code, err := dec.PeekCode(); err != nil {
		return nil, err
	} else if code == 0xc0 {
		return nil, dec.DecodeNil()
	}
	id, n, err := dec.DecodeExtHeader()
	if err != nil {
		return nil, err
	}
	if id != RefExtension || n > binary.MaxVarintLen64 {
		return nil, fmt.Errorf("extension %d of %d bytes is no future", id, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(dec.Buffered(), b); err != nil {
		return nil, err
	}
	place, k := binary.Uvarint(b)
	from, ok := dec.Buffered().(*referred)
	switch {
	case k != n:
		return nil, errors.New("the place of a future is no number")
	case !ok || from.refer == nil:
		return nil, errNoRefs
	}
	return from.refer(Ref{place, t}), nil
}
