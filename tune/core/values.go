package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Values is a configuration, or the metrics of a result: a tree of int64, float64, text, bool, nil, lists and maps. As
// JSON a float64 always has a point or an exponent, so that it is read as one. The texts NaN, Infinity and -Infinity
// are these numbers.
type Values map[string]any

// MarshalJSON writes the values with sorted keys.
func (v Values) MarshalJSON() ([]byte, error) { return appendValue(nil, map[string]any(v)) }

func appendValue(b []byte, x any) (_ []byte, err error) {
	switch x := x.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int64:
		return strconv.AppendInt(b, x, 10), nil
	case float64:
		return appendFloat(b, x), nil
	case string:
		text, err := json.Marshal(x)
		return append(b, text...), err
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendValue(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case Values:
		return appendValue(b, map[string]any(x))
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendValue(b, k); err != nil {
				return nil, err
			}
			if b, err = appendValue(append(b, ':'), x[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("a value of type %T: use numbers, texts, lists and maps", x)
}

// Text returns a value as people read it: texts as they are, null for nil, lists and maps as JSON.
func Text(x any) string {
	switch x.(type) {
	case nil, []any, map[string]any, Values:
		return quoted(x)
	}
	return fmt.Sprint(x)
}

// quoted is a value as JSON.
func quoted(x any) string {
	b, err := appendValue(nil, x)
	if err != nil {
		return fmt.Sprint(x)
	}
	return string(b)
}

func appendFloat(b []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(b, `"NaN"`...)
	case math.IsInf(x, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(x, -1):
		return append(b, `"-Infinity"`...)
	}
	from := len(b)
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	if !bytes.ContainsAny(b[from:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

// UnmarshalJSON reads values.
func (v *Values) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	for k, x := range m {
		y, err := Canonical(x)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		m[k] = y
	}
	*v = m
	return nil
}

// Canonical returns x with the types that Values have. A type that they have not is an error.
func Canonical(x any) (any, error) {
	switch x := x.(type) {
	case nil, bool, int64, float64:
		return x, nil
	case string:
		switch x {
		case "NaN":
			return math.NaN(), nil
		case "Infinity", "-Infinity":
			return math.Inf(len("-Infinity") - len(x) - 1), nil
		}
		return x, nil
	case json.Number:
		if !strings.ContainsAny(string(x), ".eE") {
			if i, err := strconv.ParseInt(string(x), 10, 64); err == nil {
				return i, nil
			}
		}
		f, err := strconv.ParseFloat(string(x), 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s: %w", x, err)
		}
		return f, nil
	case int:
		return int64(x), nil
	case float32:
		return float64(x), nil
	case Values:
		return Canonical(map[string]any(x))
	case map[string]any:
		c := make(map[string]any, len(x))
		for k, e := range x {
			y, err := Canonical(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			c[k] = y
		}
		return c, nil
	case []any:
		c := make([]any, len(x))
		for i, e := range x {
			y, err := Canonical(e)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
			c[i] = y
		}
		return c, nil
	}
	return nil, fmt.Errorf("a value of type %T: use numbers, texts, lists and maps", x)
}

// Flat returns the values by path, such as "eval/loss".
func (v Values) Flat() Values {
	nested := false
	for _, x := range v {
		if _, ok := x.(map[string]any); ok {
			nested = true
		}
	}
	if !nested {
		return v
	}
	flat := Values{}
	var walk func(string, map[string]any)
	walk = func(path string, m map[string]any) {
		for k, x := range m {
			if sub, ok := x.(map[string]any); ok {
				walk(path+k+"/", sub)
			} else {
				flat[path+k] = x
			}
		}
	}
	walk("", v)
	return flat
}
