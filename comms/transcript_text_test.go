package comms

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The text form of messages in transcripts: Name {Field: value, ...}. Fields that
// are zero are left out.
//
//	numbers    42  -1  0.5  NaN        enumerated values by name: Started
//	text       "as in JSON"            bytes, hashes, text that is not UTF-8: h"00ff"
//	ids        id"0190f3a1-7c00-7000-8000-000000000001"
//	records    {Field: value}          lists: [a, b]
//
// A record that is optional and there, but all zero, is {}.

const textWidth = 110

type texts struct{ s *schema }

// print writes a value in one line, or in several when it is long. The line that
// it begins in is indented by indent and has used that many columns already.
func (x texts) print(v reflect.Value, indent, used int) string {
	one := x.line(v)
	if len(one)+used <= textWidth {
		return one
	}
	pad := "\n" + strings.Repeat(" ", indent+2)
	var b strings.Builder
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Word]():
		b.WriteByte('{')
		first := true
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && !emptyList(f) {
				b.WriteString(separator(&first, pad))
				name := v.Type().Field(i).Name + ": "
				b.WriteString(name + x.print(f, indent+2, indent+2+len(name)))
			}
		}
		b.WriteString("\n" + strings.Repeat(" ", indent) + "}")
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		b.WriteByte('[')
		first := true
		for i := range v.Len() {
			b.WriteString(separator(&first, pad) + x.print(v.Index(i), indent+2, indent+2))
		}
		b.WriteString("\n" + strings.Repeat(" ", indent) + "]")
	default:
		return one
	}
	return b.String()
}

func separator(first *bool, pad string) string {
	if *first {
		*first = false
		return pad
	}
	return "," + pad
}

func emptyList(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Len() == 0 }

func (x texts) line(v reflect.Value) string {
	if e := x.s.enums[v.Type().Name()]; e != nil {
		if name, ok := e.names[v.Uint()]; ok {
			return name
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return x.line(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Word]() {
			return x.line(v.Field(0))
		}
		var parts []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && !emptyList(f) {
				parts = append(parts, v.Type().Field(i).Name+": "+x.line(f))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return `h"` + hex.EncodeToString(v.Bytes()) + `"`
		}
		var parts []string
		for i := range v.Len() {
			parts = append(parts, x.line(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Array:
		return `id"` + v.Interface().(JobID).String() + `"`
	case reflect.String:
		if v.Type() == reflect.TypeFor[Hash]() || !utf8.ValidString(v.String()) {
			return `h"` + hex.EncodeToString([]byte(v.String())) + `"`
		}
		return quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	return strconv.FormatUint(v.Uint(), 10)
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// textReader reads the text form back.
type textReader struct {
	s    *schema
	rest string
}

// message reads "Name {...}".
func (r *textReader) message() (m Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, ok := p.(textError)
			if !ok {
				panic(p)
			}
			err = text
		}
	}()
	name := r.word()
	for _, info := range r.s.messages {
		if info.typ.Name() == name {
			v := reflect.New(info.typ)
			r.value(v.Elem())
			if r.space(); r.rest != "" {
				r.fail("text behind the message")
			}
			return v.Interface().(Message), nil
		}
	}
	r.fail("no message has the name " + name)
	return nil, nil
}

type textError string

func (e textError) Error() string { return string(e) }

func (r *textReader) fail(what string) {
	rest := r.rest
	if len(rest) > 40 {
		rest = rest[:40]
	}
	panic(textError(fmt.Sprintf("%s at %q", what, rest)))
}

func (r *textReader) space() { r.rest = strings.TrimLeft(r.rest, " \n\t") }

// is consumes a token if it is next.
func (r *textReader) is(token string) bool {
	r.space()
	rest, ok := strings.CutPrefix(r.rest, token)
	r.rest = rest
	return ok
}

func (r *textReader) want(token string) {
	if !r.is(token) {
		r.fail("want " + token)
	}
}

// word reads a name or a number.
func (r *textReader) word() string {
	r.space()
	n := strings.IndexFunc(r.rest, func(c rune) bool { return strings.ContainsRune(" \n\t,:{}[]\"", c) })
	if n < 0 {
		n = len(r.rest)
	}
	w := r.rest[:n]
	r.rest = r.rest[n:]
	return w
}

// quoted reads "text" or, behind a prefix, what prefix stands for.
func (r *textReader) quoted() string {
	d := json.NewDecoder(strings.NewReader(r.rest))
	var s string
	if err := d.Decode(&s); err != nil {
		r.fail(err.Error())
	}
	r.rest = r.rest[d.InputOffset():]
	return s
}

func (r *textReader) bytes() []byte {
	r.want("h")
	b, err := hex.DecodeString(r.quoted())
	if err != nil {
		r.fail(err.Error())
	}
	return b
}

func (r *textReader) value(v reflect.Value) {
	r.space()
	if e := r.s.enums[v.Type().Name()]; e != nil {
		w := r.word()
		n, ok := e.values[w]
		if !ok {
			n = r.unsigned(w, 8)
		}
		v.SetUint(n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.value(v.Elem())
	case reflect.Struct:
		r.fields(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(r.bytes())
			return
		}
		r.want("[")
		for !r.is("]") {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			r.value(v.Index(v.Len() - 1))
			if !r.is(",") {
				r.want("]")
				return
			}
		}
	case reflect.Array:
		r.want("id")
		id, err := ParseJobID(r.quoted())
		if err != nil {
			r.fail(err.Error())
		}
		v.Set(reflect.ValueOf(id).Convert(v.Type()))
	case reflect.String:
		if strings.HasPrefix(r.rest, "h") {
			v.SetString(string(r.bytes()))
		} else {
			v.SetString(r.quoted())
		}
	default:
		r.scalar(v, r.word())
	}
}

func (r *textReader) fields(v reflect.Value) {
	if v.Type() == reflect.TypeFor[Word]() {
		r.value(v.Field(0))
		return
	}
	r.want("{")
	for !r.is("}") {
		name := r.word()
		f := v.FieldByName(name)
		if !f.IsValid() {
			r.fail(v.Type().Name() + " has no field " + name)
		}
		r.want(":")
		r.value(f)
		if !r.is(",") {
			r.want("}")
			return
		}
	}
}

func (r *textReader) scalar(v reflect.Value, w string) {
	switch v.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(w)
		if err != nil {
			r.fail(err.Error())
		}
		v.SetBool(b)
	case reflect.Float64:
		f, err := strconv.ParseFloat(w, 64)
		if err != nil {
			r.fail(err.Error())
		}
		if math.IsNaN(f) {
			f = math.NaN()
		}
		v.SetFloat(f)
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(w, 10, v.Type().Bits())
		if err != nil {
			r.fail(err.Error())
		}
		v.SetInt(n)
	default:
		v.SetUint(r.unsigned(w, v.Type().Bits()))
	}
}

func (r *textReader) unsigned(w string, bits int) uint64 {
	n, err := strconv.ParseUint(w, 10, bits)
	if err != nil {
		r.fail(err.Error())
	}
	return n
}
