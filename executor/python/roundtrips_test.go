//go:build linux

package python_test

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// sentByPython is a value of Python's and what became of it.
type sentByPython struct {
	Name                string
	Value, Sent, Handed string
	Refused             string
	Differs             string // by annotation, when sent and handed over
	Codec, DType        string
	Shape               []uint64
	Data                []byte
}

type pair struct {
	X int
	Y string
}

// goKinds are values of Go, by the names that they have in the table.
var goKinds = []struct {
	name string
	v    any
}{
	{"bool", true}, {"int", -7}, {"int64 max", int64(math.MaxInt64)}, {"uint64 max", uint64(math.MaxUint64)}, {"float64", 2.5}, {"float64 3", 3.0}, {"NaN", math.NaN()}, {"float32", float32(0.1)},
	{"string", "grün"}, {"string no UTF-8", "a\xff"}, {"[]byte", []byte{0, 255}}, {"[]string", []string{"a", "b\xff"}}, {"[]bool", []bool{true, false}}, {"[]int", []int{1, 2}}, {"[]float32", []float32{0.5}},
	// One entry: the order of the entries of a Go map is another each time.
	{"[]complex128", []complex128{1 + 2i}}, {"[2]int", [2]int{1, 2}}, {"[][]int", [][]int{{1}, {}}}, {"nil slice", []string(nil)}, {"struct", pair{1, "a"}}, {"pointer", &pair{2, "b"}}, {"nil pointer", (*pair)(nil)},
	{"map[string]int", map[string]int{"b": 1}}, {"map[int]string", map[int]string{-2: "b"}}, {"map[bool]int", map[bool]int{true: 1}}, {"map[float64]int", map[float64]int{0.5: 1}},
	{"map[[2]int]string", map[[2]int]string{{1, 2}: "a"}}, {"map[pair]int", map[pair]int{{1, "a"}: 2}}, {"map[any]int", map[any]int{"a": 1}}, {"map[time]int", map[time.Time]int{time.Unix(0, 0).UTC(): 1}},
	{"time", time.Date(2024, 2, 29, 12, 30, 15, 250001000, time.UTC)}, {"time of nanoseconds", time.Date(2024, 2, 29, 12, 30, 15, 1, time.UTC)}, {"time 10000", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, {"duration", 90 * time.Second},
	{"Array 2-D", value.Array[float64]{Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2}}}, {"Array empty", value.Array[int8]{Shape: []int{0, 3}}}, {"any", map[string]any{"a": []any{int8(1), nil, "x"}}},
}

// Values of all kinds go from Python to Python (sent, and handed over in one process), to Go and to
// a command's file, and from Go to Go, Python and a file. Each arrives as it was (=), as the table
// says, or is refused with what the table says.
func TestRoundTrips(t *testing.T) {
	pyenv.Python(t)
	codecs := &value.Codecs{}
	flats := map[string]value.Flat{}
	given := map[string][]any{}
	var fromGo strings.Builder
	for _, k := range goKinds {
		c, err := codecs.For(reflect.TypeOf(k.v))
		if err != nil {
			fmt.Fprintf(&fromGo, "  %s: refused: %s\n", k.name, err)
			continue
		}
		f, err := c.Encode(k.v)
		if err != nil {
			t.Fatal(k.name, err)
		}
		flats[k.name], given[k.name] = f, []any{f.Codec, f.DType, f.Shape, f.Bytes}
	}
	made, seen := throughPython(t, given)
	var b strings.Builder
	b.WriteString("Values of Python\n")
	for _, m := range made {
		fmt.Fprintf(&b, "%s: %s\n", m.Name, m.Value)
		if m.Refused != "" {
			fmt.Fprintf(&b, "  refused: %s\n  handed: %s\n", m.Refused, m.Handed)
			continue
		}
		f := value.Flat{Codec: m.Codec, DType: m.DType, Shape: m.Shape, Bytes: m.Data}
		fmt.Fprintf(&b, "  as %s\n  sent: %s\n", strings.TrimSpace(m.Codec+" "+m.DType), m.Sent)
		if m.Handed != m.Sent {
			fmt.Fprintf(&b, "  handed: %s\n", m.Handed)
		}
		fmt.Fprintf(&b, "  Go: %s\n  file: %s%s\n", inGo(codecs, f), inFile(f), m.Differs)
	}
	b.WriteString("\nValues of Go\n")
	for _, k := range goKinds {
		f, ok := flats[k.name]
		if !ok {
			continue
		}
		c, _ := codecs.For(reflect.TypeOf(k.v))
		fmt.Fprintf(&b, "%s: %s\n  Go: %s\n  Python: %s\n  file: %s\n", k.name, goText(k.v), same1(k.v, c, f), seen[k.name], inFile(f))
	}
	b.WriteString(fromGo.String())
	same(t, "testdata/roundtrips.golden", b.String())
}

// throughPython runs the program of testdata with values of Go.
func throughPython(t *testing.T, given map[string][]any) ([]sentByPython, map[string]string) {
	t.Helper()
	in, err := msgpack.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	python, env := interpreter(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/roundtrips.py")
	cmd.Env, cmd.Stdin = append(env, "PYTHONDONTWRITEBYTECODE=1"), bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var answer struct {
		Made []sentByPython    `msgpack:"made"`
		Seen map[string]string `msgpack:"seen"`
	}
	if err := msgpack.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Made, answer.Seen
}

// inGo is what a function of Go gets of a dataset: by its codec, and any for msgpack.
func inGo(codecs *value.Codecs, f value.Flat) string {
	want := reflect.TypeFor[any]()
	switch f.Codec {
	case value.Raw:
		want = reflect.TypeFor[string]()
	case value.Numbers:
		want = map[string]reflect.Type{
			"f64": reflect.TypeFor[value.Array[float64]](), "f32": reflect.TypeFor[value.Array[float32]](), "i64": reflect.TypeFor[value.Array[int64]](),
			"u16": reflect.TypeFor[value.Array[uint16]](), "u8": reflect.TypeFor[value.Array[uint8]](), "c128": reflect.TypeFor[value.Array[complex128]](),
		}[f.DType]
	}
	c, err := codecs.For(want)
	if err != nil {
		return err.Error()
	}
	v, err := c.Decode(f)
	if err != nil {
		return "refused: " + err.Error()
	}
	return goText(v)
}

func goText(v any) string {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		return "&" + goText(p.Elem().Interface())
	}
	switch x := v.(type) {
	case time.Time:
		return "time.Time " + x.UTC().Format(time.RFC3339Nano)
	case string:
		return fmt.Sprintf("string %q", x)
	}
	return fmt.Sprintf("%T %v", v, v)
}

// same1 is what a function of Go with the same type gets.
func same1(v any, c value.Codec, f value.Flat) string {
	got, err := c.Decode(f)
	if err != nil {
		return "refused: " + err.Error()
	}
	if goText(got) == goText(v) {
		return "="
	}
	return goText(got)
}

// inFile is what a command finds in the file of a dataset.
func inFile(f value.Flat) string {
	switch f.Codec {
	case value.Pickle:
		return fmt.Sprintf("refused: %s; return %s", value.Pickled(f.DType), value.PlainForm(f.DType))
	case value.Numbers:
		return fmt.Sprintf("%d bytes", len(f.Bytes))
	}
	b, err := value.Text(f)
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprintf("%q", strings.TrimSuffix(string(b), "\n"))
}
