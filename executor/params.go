package executor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/value"
)

// Parameters turns a parameter struct into the fields of `with:`, the inverse of
// what the executor does with them.
func Parameters(p any) ([]dag.Field, error) {
	v := reflect.ValueOf(p)
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parameters are a struct, got %T", p)
	}
	if err := checkWith(v.Type()); err != nil {
		return nil, err
	}
	fields, err := withFields(v.Type())
	if err != nil {
		return nil, err
	}
	out := make([]dag.Field, len(fields))
	for i, f := range fields {
		out[i] = dag.Field{Name: f.name, Value: plain(v.Field(f.index))}
	}
	return out, nil
}

// plain turns a value into the types that job files know.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	switch {
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Kind() == reflect.String:
		return strings.ReplaceAll(v.String(), "${", "$${")
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for k, e := range v.Seq2() {
			out[k.String()] = plain(e)
		}
		return out
	}
	out := map[string]any{}
	fields, _ := withFields(v.Type())
	for _, f := range fields {
		out[f.name] = plain(v.Field(f.index))
	}
	return out
}

// Decode turns the bytes of a dataset into a value of type T.
func Decode[T any](r *Registry, codec, dtype string, shape []uint64, b []byte) (T, error) {
	var zero T
	c, err := r.Codecs.For(reflect.TypeFor[T]())
	if err != nil {
		return zero, err
	}
	v, err := c.Decode(value.Flat{Codec: codec, DType: dtype, Shape: slices.Clone(shape), Bytes: b})
	if err != nil {
		return zero, err
	}
	return As[T](v), nil
}
