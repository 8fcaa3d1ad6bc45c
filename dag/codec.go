package dag

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// formatVersion is the first field of an encoded graph. A change of the layout
// raises it; Decode refuses other versions.
const formatVersion = 1

// How many elements an encoded graph has: the last but one says that all datasets are
// kept, the last what becomes of the job when a recomputed one differs.
const (
	graphPlain   = 7
	graphRetain  = 8
	graphRebuilt = 9
)

// Encode returns the graph's declarations as msgpack arrays, equal bytes for
// equal graphs. Places in the job file and everything derived are left out.
func (g *Graph) Encode() []byte {
	var buf bytes.Buffer
	e := encoder{msgpack.NewEncoder(&buf)}
	elements := graphPlain
	switch {
	case g.Rebuilt != RebuiltDefault:
		elements = graphRebuilt
	case g.Retain:
		elements = graphRetain
	}
	e.array(elements)
	e.int(formatVersion)
	e.string(g.Name)
	e.bool(g.KeepGoing)
	e.array(len(g.Params))
	for i := range g.Params {
		e.param(&g.Params[i])
	}
	e.array(len(g.Environments))
	for i := range g.Environments {
		e.environment(&g.Environments[i])
	}
	e.array(len(g.Groups))
	for i := range g.Groups {
		e.group(&g.Groups[i])
	}
	e.array(len(g.Exports))
	for i := range g.Exports {
		e.array(2)
		e.string(g.Exports[i].From.Text)
		e.string(g.Exports[i].Path)
	}
	if elements >= graphRetain {
		e.bool(g.Retain)
	}
	if elements >= graphRebuilt {
		e.int(int64(g.Rebuilt))
	}
	return buf.Bytes()
}

// encoder writes to memory, which does not fail.
type encoder struct{ m *msgpack.Encoder }

func must(err error) {
	if err != nil {
		panic("dag: encode to memory: " + err.Error())
	}
}

func (e encoder) array(n int)     { must(e.m.EncodeArrayLen(n)) }
func (e encoder) int(n int64)     { must(e.m.EncodeInt(n)) }
func (e encoder) uint(n uint64)   { must(e.m.EncodeUint(n)) }
func (e encoder) bool(b bool)     { must(e.m.EncodeBool(b)) }
func (e encoder) string(s string) { must(e.m.EncodeString(s)) }

func (e encoder) value(v any) {
	switch x := v.(type) {
	case nil:
		must(e.m.EncodeNil())
	case bool:
		e.bool(x)
	case int64:
		e.int(x)
	case float64:
		must(e.m.EncodeFloat64(x))
	case string:
		e.string(x)
	case []any:
		e.array(len(x))
		for _, c := range x {
			e.value(c)
		}
	case map[string]any:
		must(e.m.EncodeMapLen(len(x)))
		for _, k := range keysOf(x) {
			e.string(k)
			e.value(x[k])
		}
	default:
		panic(fmt.Sprintf("dag: encode a %T", v)) // checkValue lets none through
	}
}

// param has a third element only for the spellings of its numbers.
func (e encoder) param(p *Param) {
	if len(p.Spelled) == 0 {
		e.array(2)
	} else {
		e.array(3)
	}
	e.string(p.Name)
	e.value(p.Value)
	if len(p.Spelled) == 0 {
		return
	}
	places := sortedKeys(p.Spelled)
	e.array(2 * len(places))
	for _, place := range places {
		e.string(place)
		e.string(p.Spelled[place])
	}
}

func (e encoder) fields(fs []Field) {
	e.array(len(fs) * 2)
	for i := range fs {
		e.string(fs[i].Name)
		e.value(fs[i].Value)
	}
}

func (e encoder) group(grp *Group) {
	switch {
	case len(grp.Files) > 0:
		e.array(groupInput)
	case grp.Gang != GangNone:
		e.array(groupGang)
	case grp.Deadline != 0:
		e.array(groupLate)
	default:
		e.array(groupPlain)
	}
	e.string(grp.Name)
	e.array(len(grp.Axes))
	for i := range grp.Axes {
		a := &grp.Axes[i]
		if a.Values == nil {
			e.array(3)
			e.string(a.Var)
			e.int(a.First)
			e.int(a.N)
			continue
		}
		e.array(2)
		e.string(a.Var)
		e.array(len(a.Values))
		for _, v := range a.Values {
			e.value(v)
		}
	}
	if st := grp.Stream; st != nil {
		e.array(3)
		e.string(st.Var)
		e.uint(uint64(st.Generator))
		e.uint(uint64(st.Output))
	} else {
		e.array(0)
	}
	e.run(&grp.Run)
	e.array(len(grp.Inputs))
	for i := range grp.Inputs {
		d := &grp.Inputs[i]
		e.array(4)
		e.string(d.Name)
		e.bool(d.List)
		e.int(int64(d.Min))
		e.array(len(d.From))
		for k := range d.From {
			e.string(d.From[k].Text)
		}
	}
	e.array(len(grp.Outputs))
	for i := range grp.Outputs {
		o := &grp.Outputs[i]
		e.array(4)
		e.string(o.Name)
		e.uint(uint64(o.Generate))
		e.uint(o.Count)
		e.int(int64(o.Buffer))
	}
	e.fields(grp.With)
	e.fields(grp.Env)
	res := &grp.Resources
	keys := sortedKeys(res.Custom)
	named := len(keys)
	for _, n := range []int64{res.MemoryMax, res.GPUMemory} {
		if n != 0 {
			named++
		}
	}
	e.array(3 + 2*named)
	e.int(res.CPU)
	e.int(res.Memory)
	e.int(res.GPU)
	if res.MemoryMax != 0 { // to an older program these are resources that no host has
		e.string(memoryMax)
		e.int(res.MemoryMax)
	}
	if res.GPUMemory != 0 {
		e.string(gpuMemory)
		e.int(res.GPUMemory)
	}
	for _, k := range keys {
		e.string(k)
		e.int(res.Custom[k])
	}
	e.int(int64(grp.Retries))
	e.int(int64(grp.Timeout))
	e.int(int64(grp.Priority))
	e.bool(grp.KeepGoing)
	if grp.Deadline != 0 || grp.Gang != GangNone || len(grp.Files) > 0 {
		e.int(int64(grp.Deadline))
	}
	if grp.Gang != GangNone || len(grp.Files) > 0 {
		e.uint(uint64(grp.Gang))
	}
	if len(grp.Files) > 0 {
		e.files(grp.Files)
	}
}

// How many elements an encoded group has: without deadline and gang, which is the
// layout of stored graphs from before there were any, with a deadline, as a gang,
// and as an input of the job.
const (
	groupPlain = 13
	groupLate  = 14
	groupGang  = 15
	groupInput = 16
)

func (e encoder) run(run *Run) {
	e.array(5)
	e.string(run.Environment)
	e.string(run.Function)
	e.array(len(run.Command))
	for _, word := range run.Command {
		e.array(2 * len(word))
		for _, p := range word {
			e.uint(uint64(p.Kind))
			e.string(p.Text)
		}
	}
	e.string(run.Stdin)
	e.string(run.Stdout)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Decode reads an encoded graph and checks it as ParseYAML does, with the
// default limits. Memory stays in proportion to the bytes and the limits.
func Decode(data []byte) (*Graph, error) { return DecodeWith(data, Options{}) }

// DecodeWith is Decode with limits.
func DecodeWith(data []byte, opt Options) (*Graph, error) {
	opt = opt.withDefaults()
	if len(data) > opt.MaxBytes {
		return nil, fmt.Errorf("decode graph: %d bytes: at most %d are read", len(data), opt.MaxBytes)
	}
	r := bytes.NewReader(data)
	d := decoder{m: msgpack.NewDecoder(r), r: r}
	g := d.graph()
	if d.err == nil && r.Len() > 0 {
		d.fail(fmt.Errorf("%d bytes follow the graph", r.Len()))
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode graph: byte %d: %w", len(data)-r.Len(), d.err)
	}
	var problems Problems
	for _, is := range g.resolve(opt, nil, nil) {
		problems = append(problems, Problem{Message: is.message, Hint: is.hint})
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("decode graph: %w", sortProblems(problems))
	}
	return g, nil
}

// decoder reads with a sticky error: after the first, everything is zero and empty.
type decoder struct {
	m   *msgpack.Decoder
	r   *bytes.Reader
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// read calls one of the msgpack decoder's methods.
func read[T any](d *decoder, f func() (T, error)) T {
	var zero T
	if d.err != nil {
		return zero
	}
	v, err := f()
	if err != nil {
		d.fail(err)
		return zero
	}
	return v
}

func (d *decoder) string() string { return read(d, d.m.DecodeString) }
func (d *decoder) int() int64     { return read(d, d.m.DecodeInt64) }
func (d *decoder) uint() uint64   { return read(d, d.m.DecodeUint64) }
func (d *decoder) bool() bool     { return read(d, d.m.DecodeBool) }

// small is an integer that fits an int on every machine.
func (d *decoder) small() int {
	return read(d, func() (int, error) { n, err := d.m.DecodeInt32(); return int(n), err })
}

// array reads a length, each of whose elements takes at least one byte.
func (d *decoder) array() int {
	n := read(d, d.m.DecodeArrayLen)
	if d.err == nil && (n < 0 || n > d.r.Len()) {
		d.fail(fmt.Errorf("list of %d elements in %d bytes", n, d.r.Len()))
	}
	if d.err != nil {
		return 0
	}
	return n
}

// fixed reads a length that must be n.
func (d *decoder) fixed(n int) bool {
	if got := d.array(); d.err == nil && got != n {
		d.fail(fmt.Errorf("list of %d elements where %d are expected", got, n))
	}
	return d.err == nil
}

// pairs reads the length of a list of twos and returns how many twos.
func (d *decoder) pairs() int {
	n := d.array()
	if n%2 != 0 {
		d.fail(fmt.Errorf("list of %d elements where pairs are expected", n))
		return 0
	}
	return n / 2
}

// listOf reads n elements; it grows with what was read, not with what was announced.
func listOf[T any](d *decoder, n int, one func() T) []T {
	if n == 0 || d.err != nil {
		return nil
	}
	out := make([]T, 0, min(n, 1+d.r.Len()/64))
	for range n {
		if d.err != nil {
			return nil
		}
		out = append(out, one())
	}
	return out
}

func (d *decoder) value(depth int) any {
	if depth > maxDepth {
		d.fail(fmt.Errorf("value nested deeper than %d", maxDepth))
		return nil
	}
	code := read(d, d.m.PeekCode)
	if d.err != nil {
		return nil
	}
	switch {
	case code == 0xc0:
		d.fail(d.m.DecodeNil())
		return nil
	case code == 0xc2 || code == 0xc3:
		return d.bool()
	case code == 0xca || code == 0xcb:
		return read(d, d.m.DecodeFloat64)
	case code <= 0x7f || code >= 0xe0 || code >= 0xcc && code <= 0xd3:
		return d.int()
	case code >= 0xa0 && code <= 0xbf || code >= 0xd9 && code <= 0xdb:
		return d.string()
	case code >= 0x90 && code <= 0x9f || code == 0xdc || code == 0xdd:
		n := d.array()
		out := listOf(d, n, func() any { return d.value(depth + 1) })
		if out == nil {
			out = []any{}
		}
		return out
	case code >= 0x80 && code <= 0x8f || code == 0xde || code == 0xdf:
		n := read(d, d.m.DecodeMapLen)
		if n < 0 || n > d.r.Len() {
			d.fail(fmt.Errorf("mapping of %d entries in %d bytes", n, d.r.Len()))
		}
		out := map[string]any{}
		for range n {
			if d.err != nil {
				return nil
			}
			k := d.string()
			out[k] = d.value(depth + 1)
		}
		return out
	}
	d.fail(fmt.Errorf("a value with msgpack code %#x", code))
	return nil
}

func (d *decoder) param() (p Param) {
	n := d.array()
	if d.err == nil && n != 2 && n != 3 {
		d.fail(fmt.Errorf("parameter of %d elements", n))
	}
	p.Name, p.Value = d.string(), d.value(0)
	if d.err != nil || n == 2 {
		return p
	}
	p.Spelled = Spellings{}
	for range d.array() / 2 {
		place := d.string()
		if p.Spelled[place] = d.string(); d.err != nil {
			break
		}
	}
	return p
}

func (d *decoder) graph() *Graph {
	g := &Graph{}
	n := d.array()
	if d.err == nil && (n < graphPlain || n > graphRebuilt) {
		d.fail(fmt.Errorf("graph of %d elements", n))
	}
	if d.err != nil {
		return g
	}
	if v := d.int(); d.err == nil && v != formatVersion {
		d.fail(fmt.Errorf("graph of format %d, this program reads format %d", v, formatVersion))
	}
	g.Name = d.string()
	g.KeepGoing = d.bool()
	g.Params = listOf(d, d.array(), d.param)
	g.Environments = listOf(d, d.array(), d.environment)
	g.Groups = listOf(d, d.array(), d.group)
	g.Exports = listOf(d, d.array(), func() Export {
		d.fixed(2)
		return Export{From: From{Text: d.string()}, Path: d.string()}
	})
	if n >= graphRetain {
		g.Retain = d.bool()
	}
	if n >= graphRebuilt {
		v := d.int()
		if d.err == nil && (v < int64(RebuiltRerun) || v > int64(RebuiltAccept)) {
			d.fail(fmt.Errorf("rebuilt %d is no policy", v))
		}
		g.Rebuilt = Rebuilt(v)
	}
	return g
}

func (d *decoder) fields() []Field {
	return listOf(d, d.pairs(), func() Field { return Field{Name: d.string(), Value: d.value(0)} })
}

func (d *decoder) group() (grp Group) {
	n := d.array()
	if d.err == nil && (n < groupPlain || n > groupInput) {
		d.fail(fmt.Errorf("task of %d elements", n))
	}
	if d.err != nil {
		return grp
	}
	grp.Name = d.string()
	grp.Axes = listOf(d, d.array(), d.axis)
	if n := d.array(); n == 3 {
		grp.Stream = &Stream{Var: d.string(), Generator: TaskIndex(read(d, d.m.DecodeUint32)), Output: read(d, d.m.DecodeUint32)}
	} else if n != 0 {
		d.fail(fmt.Errorf("stream of %d elements", n))
	}
	if d.fixed(5) {
		grp.Run = Run{Environment: d.string(), Function: d.string()}
		grp.Run.Command = listOf(d, d.array(), func() Arg {
			return listOf(d, d.pairs(), func() ArgPart {
				return ArgPart{Kind: ArgKind(min(d.uint(), 255)), Text: d.string()}
			})
		})
		grp.Run.Stdin, grp.Run.Stdout = d.string(), d.string()
	}
	grp.Inputs = listOf(d, d.array(), func() InputDecl {
		d.fixed(4)
		return InputDecl{Name: d.string(), List: d.bool(), Min: d.small(),
			From: listOf(d, d.array(), func() From { return From{Text: d.string()} })}
	})
	grp.Outputs = listOf(d, d.array(), func() OutputDecl {
		d.fixed(4)
		return OutputDecl{Name: d.string(), Generate: Generate(min(d.uint(), 255)), Count: d.uint(), Buffer: d.small()}
	})
	grp.With, grp.Env = d.fields(), d.fields()
	d.resources(&grp.Resources)
	grp.Retries, grp.Timeout, grp.Priority = d.small(), time.Duration(d.int()), d.small()
	grp.KeepGoing = d.bool()
	if n >= groupLate {
		grp.Deadline = time.Duration(d.int())
	}
	if n >= groupGang {
		grp.Gang = Gang(min(d.uint(), 255))
	}
	if n == groupInput {
		grp.Files = d.files()
	}
	return grp
}

func (d *decoder) axis() Axis {
	switch n := d.array(); {
	case d.err != nil:
	case n == 3:
		return Axis{Var: d.string(), First: d.int(), N: d.int()}
	case n == 2:
		a := Axis{Var: d.string()}
		if a.Values = listOf(d, d.array(), func() any { return d.value(maxDepth) }); a.Values == nil {
			a.Values = []any{}
		}
		return a
	default:
		d.fail(fmt.Errorf("loop of %d elements", n))
	}
	return Axis{}
}

// memoryMax is what Resources.MemoryMax is called in job files and in encoded graphs.
const memoryMax = "memory_max"

func (d *decoder) resources(res *Resources) {
	n := d.array()
	if d.err == nil && (n < 3 || n%2 == 0) {
		d.fail(fmt.Errorf("resources of %d elements", n))
	}
	if d.err != nil {
		return
	}
	res.CPU, res.Memory, res.GPU = d.int(), d.int(), wholeDevices(d.int())
	for range (n - 3) / 2 {
		if d.err != nil {
			return
		}
		k := d.string()
		switch k {
		case memoryMax:
			res.MemoryMax = d.int()
			continue
		case gpuMemory:
			res.GPUMemory = d.int()
			continue
		}
		if res.Custom == nil {
			res.Custom = map[string]int64{}
		}
		res.Custom[k] = d.int()
	}
}
