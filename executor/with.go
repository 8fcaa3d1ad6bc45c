package executor

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cascade-run/cascade/executor/value"
)

// The parameters of a task come from the job's `with:` as a msgpack map and go
// into the function's parameter struct by name. A field is named by its tag
// (`with:"name"`), else by its Go name in snake case: MaxSteps is max_steps.
// Every field must be given, unless its tag says `with:",optional"`.

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

type withField struct {
	name     string
	index    int
	optional bool
}

// withFields lists the fields of a parameter struct.
func withFields(t reflect.Type) ([]withField, error) {
	var out []withField
	for i := range t.NumField() {
		f := t.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("with"), ",")
		if name == "-" {
			continue
		}
		if !f.IsExported() {
			return nil, fmt.Errorf("field %s of %s is not exported and cannot take a parameter: export it, or tag it `with:\"-\"`", f.Name, t)
		}
		if flags != "" && flags != "optional" {
			return nil, fmt.Errorf("field %s of %s: the tag knows only the flag \"optional\", not %q", f.Name, t, flags)
		}
		if name == "" {
			name = snake(f.Name)
		}
		if slices.ContainsFunc(out, func(o withField) bool { return o.name == name }) {
			return nil, fmt.Errorf("%s has two fields for the parameter %q", t, name)
		}
		out = append(out, withField{name, i, flags == "optional"})
	}
	return out, nil
}

// snake turns MaxSteps into max_steps and ERA5File into era5_file.
func snake(s string) string {
	r := []rune(s)
	var b strings.Builder
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// checkWith tells why a struct cannot take parameters.
func checkWith(t reflect.Type) error { return checkWithType(t, t.Name(), 0) }

func checkWithType(t reflect.Type, path string, depth int) error {
	if depth > 20 {
		return fmt.Errorf("parameter %s: the type refers to itself", path)
	}
	if t == durationType || t == timeType {
		return nil
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return nil
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkWithType(t.Elem(), path, depth+1)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return checkWithType(t.Elem(), path, depth+1)
		}
	case reflect.Struct:
		fields, err := withFields(t)
		for _, f := range fields {
			err = errors.Join(err, checkWithType(t.Field(f.index).Type, path+"."+f.name, depth+1))
		}
		return err
	}
	return fmt.Errorf("parameter %s: a value of type %s cannot be written in a job file", path, t)
}

// withText describes a parameter struct in a signature.
func withText(t reflect.Type) string {
	if t == durationType || t == timeType || t.Kind() != reflect.Struct {
		switch t.Kind() {
		case reflect.Slice, reflect.Array:
			return "[]" + withText(t.Elem())
		case reflect.Pointer:
			return withText(t.Elem())
		case reflect.Map:
			return "map of " + withText(t.Elem())
		}
		if t == durationType || t == timeType {
			return t.String()
		}
		return t.Kind().String()
	}
	fields, _ := withFields(t)
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.name + " " + withText(t.Field(f.index).Type)
		if f.optional {
			parts[i] += "?"
		}
	}
	return "{" + strings.Join(parts, "; ") + "}"
}

// flat tells whether a copy of a value shares nothing with it that can be changed.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if t != timeType && !flat(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}

// parameters makes the parameter struct of a run; those that all runs of a kind share once.
func (r *run) parameters() (any, error) {
	k := r.kind
	common := k.flat && len(r.With) > 0 && len(r.With) == len(k.With) && &r.With[0] == &k.With[0]
	if common && k.shared != nil {
		return k.shared, nil
	}
	v, err := decodeWith(k.fn.With, r.With)
	if common && err == nil {
		k.shared = v
	}
	return v, err
}

// decodeWith makes a parameter struct of type t from a msgpack map. All
// mistakes are reported together.
func decodeWith(t reflect.Type, data []byte) (any, error) {
	given := map[string]any{}
	if len(data) > 0 {
		v, err := decodeAny(data)
		if err != nil {
			return nil, fmt.Errorf("parameters: %w", err)
		}
		m, ok := v.(map[string]any)
		if v != nil && !ok {
			return nil, fmt.Errorf("parameters: want a map, got %s", describeAny(v))
		}
		if m != nil {
			given = m
		}
	}
	p := reflect.New(t).Elem()
	if err := assignStruct(p, given, "with"); err != nil {
		return nil, err
	}
	return p.Interface(), nil
}

// decodeAny reads msgpack into the types that job files know.
func decodeAny(data []byte) (v any, err error) {
	if err := value.CheckMsgpack(data); err != nil {
		return nil, err
	}
	if err := value.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("decode msgpack: %w", err)
	}
	return v, nil
}

func assignStruct(dst reflect.Value, given map[string]any, path string) error {
	fields, err := withFields(dst.Type())
	if err != nil {
		return err
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
		v, ok := given[f.name]
		if !ok {
			if !f.optional {
				err = errors.Join(err, fmt.Errorf("%s.%s is missing: the function takes %s", path, f.name, withText(dst.Type())))
			}
			continue
		}
		err = errors.Join(err, assign(dst.Field(f.index), v, path+"."+f.name))
	}
	keys := make([]string, 0, len(given))
	for k := range given {
		if !slices.Contains(names, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		err = errors.Join(err, fmt.Errorf("%s.%s is not a parameter of the function: it takes %s", path, k, withText(dst.Type())))
	}
	return err
}

// assign converts v, which came from a job file, to dst's type without loss.
func assign(dst reflect.Value, v any, path string) error {
	t := dst.Type()
	bad := func() error {
		return fmt.Errorf("%s: want %s, got %s", path, wantText(t), describeAny(v))
	}
	switch t {
	case durationType:
		s, ok := v.(string)
		if !ok {
			return bad()
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return bad()
		}
		dst.SetInt(int64(d))
		return nil
	case timeType:
		if tm, ok := v.(time.Time); ok {
			dst.Set(reflect.ValueOf(tm))
			return nil
		}
		s, _ := v.(string)
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02"} {
			if tm, err := time.Parse(layout, s); err == nil {
				dst.Set(reflect.ValueOf(tm))
				return nil
			}
		}
		return bad()
	}
	switch t.Kind() {
	case reflect.Interface:
		if v != nil {
			dst.Set(reflect.ValueOf(v))
		}
		return nil
	case reflect.Pointer:
		if v == nil {
			return nil
		}
		p := reflect.New(t.Elem())
		if err := assign(p.Elem(), v, path); err != nil {
			return err
		}
		dst.Set(p)
		return nil
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return bad()
		}
		return assignStruct(dst, m, path)
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return bad()
		}
		return assignMap(dst, m, path)
	case reflect.Slice, reflect.Array:
		l, ok := v.([]any)
		if b, isBytes := v.([]byte); isBytes && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			dst.SetBytes(slices.Clone(b))
			return nil
		}
		if !ok || t.Kind() == reflect.Array && len(l) != t.Len() {
			return bad()
		}
		return assignList(dst, l, path)
	}
	if !assignScalar(dst, v) {
		return bad()
	}
	return nil
}

func assignMap(dst reflect.Value, m map[string]any, path string) (err error) {
	t := dst.Type()
	dst.Set(reflect.MakeMapWithSize(t, len(m)))
	for k, e := range m {
		ev := reflect.New(t.Elem()).Elem()
		err = errors.Join(err, assign(ev, e, path+"."+k))
		dst.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), ev)
	}
	return err
}

func assignList(dst reflect.Value, l []any, path string) (err error) {
	if dst.Kind() == reflect.Slice {
		dst.Set(reflect.MakeSlice(dst.Type(), len(l), len(l)))
	}
	for i, e := range l {
		err = errors.Join(err, assign(dst.Index(i), e, fmt.Sprintf("%s[%d]", path, i)))
	}
	return err
}

func assignScalar(dst reflect.Value, v any) bool {
	src := reflect.ValueOf(v)
	switch k := dst.Kind(); {
	case k == reflect.Bool && src.Kind() == reflect.Bool:
		dst.SetBool(src.Bool())
	case k == reflect.String && src.Kind() == reflect.String:
		dst.SetString(src.String())
	case dst.CanFloat():
		var f float64
		switch {
		case src.CanFloat():
			f = src.Float()
		case src.CanInt():
			f = float64(src.Int())
		case src.CanUint():
			f = float64(src.Uint())
		default:
			return false
		}
		if dst.OverflowFloat(f) {
			return false
		}
		dst.SetFloat(f)
	case dst.CanInt():
		n, ok := asInt(src)
		if !ok || dst.OverflowInt(n) {
			return false
		}
		dst.SetInt(n)
	case dst.CanUint():
		if src.CanUint() && !dst.OverflowUint(src.Uint()) {
			dst.SetUint(src.Uint())
			return true
		}
		n, ok := asInt(src)
		if !ok || n < 0 || dst.OverflowUint(uint64(n)) {
			return false
		}
		dst.SetUint(uint64(n))
	default:
		return false
	}
	return true
}

// asInt reads an integer, also one that was written as 3.0.
func asInt(v reflect.Value) (int64, bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), v.Uint() <= math.MaxInt64
	case v.CanFloat():
		f := v.Float()
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<53
	}
	return 0, false
}

func wantText(t reflect.Type) string {
	switch {
	case t == durationType:
		return `a duration such as "30s"`
	case t == timeType:
		return `a time such as "2024-05-01T12:00:00Z"`
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a text"
	case reflect.Zero(t).CanFloat():
		return "a number"
	case reflect.Zero(t).CanInt(), reflect.Zero(t).CanUint():
		return "an integer that fits " + t.Kind().String()
	case t.Kind() == reflect.Array:
		return fmt.Sprintf("a list of %d elements", t.Len())
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "a map " + withText(t)
}

func describeAny(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if len(v) > 40 {
			v = v[:37] + "..."
		}
		return fmt.Sprintf("the text %q", v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return "a map"
	}
	return fmt.Sprint(v)
}
