package executor

import (
	"fmt"
	"math"
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
		x, err := plain(v.Field(f.index))
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", f.name, err)
		}
		out[i] = dag.Field{Name: f.name, Value: x}
	}
	return out, nil
}

// plain turns a value into the types that job files know.
func plain(v reflect.Value) (any, error) {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String(), nil
	case time.Time:
		return x.Format(time.RFC3339Nano), nil
	}
	switch {
	case v.Kind() == reflect.Bool:
		return v.Bool(), nil
	case v.Kind() == reflect.String:
		return strings.ReplaceAll(v.String(), "${", "$${"), nil
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		if v.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("the number %d does not fit into the 64 bits with a sign that a job file has: pass it as text", v.Uint())
		}
		return int64(v.Uint()), nil
	case v.CanFloat():
		return v.Float(), nil
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return plain(v.Elem())
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			var err error
			if out[i], err = plain(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return out, nil
	case reflect.Map:
		out := map[string]any{}
		for k, e := range v.Seq2() {
			x, err := plain(e)
			if err != nil {
				return nil, err
			}
			out[k.String()] = x
		}
		return out, nil
	}
	out := map[string]any{}
	fields, _ := withFields(v.Type())
	for _, f := range fields {
		x, err := plain(v.Field(f.index))
		if err != nil {
			return nil, err
		}
		out[f.name] = x
	}
	return out, nil
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
