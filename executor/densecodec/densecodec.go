// Package densecodec lets matrices of gonum travel between tasks. A program that imports it
// can use *mat.Dense as the type of inputs and outputs; a blank import is enough:
//
//	import _ "github.com/cascade-run/cascade/executor/densecodec"
//
// It is a package of its own because gonum is large and most programs do without.
//
//	*mat.Dense ──its numbers──▶ dataset (codec "array", f64, two axes) ──view──▶ *mat.Dense
//
// To tasks of other programs and languages it is an array like any other.
package densecodec

import (
	"errors"
	"fmt"
	"reflect"

	"gonum.org/v1/gonum/mat"

	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/executor/value"
)

// Codec is how a *mat.Dense travels; it is registered in the program's registry.
var Codec = register(executor.Default)

func register(r *executor.Registry) value.Codec {
	var arrays value.Codecs
	numbers, err := arrays.For(reflect.TypeFor[value.Array[float64]]())
	if err == nil {
		err = r.Codecs.AddForm(reflect.TypeFor[*mat.Dense](), codec{numbers})
	}
	if err != nil {
		panic(fmt.Sprintf("cascade: register the codec of *mat.Dense: %v", err))
	}
	return codec{numbers}
}

// codec is that of arrays, with two axes.
type codec struct{ value.Codec }

func (codec) Text() string { return "array f64 2-D" }

func (c codec) Encode(v any) (value.Flat, error) {
	m := v.(*mat.Dense)
	if m == nil {
		return value.Flat{}, errors.New("the *mat.Dense is nil")
	}
	r := m.RawMatrix()
	data := r.Data
	if r.Rows*r.Cols == 0 {
		data = nil
	} else if r.Stride != r.Cols { // a slice of a larger matrix
		data = make([]float64, 0, r.Rows*r.Cols)
		for i := range r.Rows {
			data = append(data, r.Data[i*r.Stride:i*r.Stride+r.Cols]...)
		}
	} else {
		data = data[:r.Rows*r.Cols]
	}
	return c.Codec.Encode(value.Array[float64]{Data: data, Shape: []int{r.Rows, r.Cols}})
}

func (c codec) Decode(f value.Flat) (any, error) {
	v, err := c.Codec.Decode(f)
	if err != nil {
		return nil, err
	}
	a := v.(value.Array[float64])
	if len(a.Shape) != 2 {
		return nil, fmt.Errorf("%w: it is an array of f64 with shape %v, the function takes a matrix (an array of f64 with two axes)", value.ErrType, a.Shape)
	}
	if len(a.Data) == 0 {
		return &mat.Dense{}, nil
	}
	return mat.NewDense(a.Shape[0], a.Shape[1], a.Data), nil
}
