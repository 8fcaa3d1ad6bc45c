package executor

import (
	"fmt"
	"reflect"

	"github.com/cascade-run/cascade/executor/value"
)

// Codec translates values of a user's Go type to bytes and back. Decode may
// alias its argument, which is read-only and valid until the task ends.
type Codec[T any] struct {
	Name   string
	Encode func(v T) ([]byte, error)
	Decode func(b []byte) (T, error)
}

// RegisterCodec makes values of type T travel by c. It panics when the codec is
// incomplete, or its name or type is taken.
func RegisterCodec[T any](r *Registry, c Codec[T]) {
	t := reflect.TypeFor[T]()
	if c.Encode == nil || c.Decode == nil {
		panic(fmt.Sprintf("cascade: register codec %q (%s): both Encode and Decode are needed", c.Name, caller()))
	}
	if err := r.Codecs.Add(t, c.Name, value.User[T]{Name: c.Name, Enc: c.Encode, Dec: c.Decode}); err != nil {
		panic(fmt.Sprintf("cascade: register codec (%s): %v", caller(), err))
	}
}
