package comms

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms/internal/msgpack"
)

// The schema of all messages, read from the Go source: fields by reflection,
// their meaning from the comments, the names of enumerated values from the
// constants. docs/protocol.md and testdata/transcripts/schema.txt are made of it.

type schema struct {
	messages []messageInfo
	records  []reflect.Type            // structs that messages hold, in order of first use
	enums    map[string]*enumInfo      // by Go type name
	docs     map[string]string         // of types
	fields   map[string]map[string]doc // of fields, by type
	used     []string                  // enums in order of first use
}

type doc string

type messageInfo struct {
	number Type
	typ    reflect.Type
	routes []route
	about  string
}

// route is one way that a message may take.
type route struct{ from, to string }

type enumInfo struct {
	names  map[uint64]string // without the prefix that all share
	values map[string]uint64
	docs   map[uint64]string
}

func loadSchema(t *testing.T) *schema {
	t.Helper()
	s := &schema{enums: map[string]*enumInfo{}, docs: map[string]string{}, fields: map[string]map[string]doc{}}
	about := map[string]string{} // of message numbers, by constant
	for _, dir := range []string{".", "../dag"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					s.declare(g, about)
				}
			}
		}
	}
	for _, m := range everyMessage() {
		typ := reflect.TypeOf(m).Elem()
		info := messageInfo{number: m.Type(), typ: typ}
		ways, text, _ := strings.Cut(about["Type"+typ.Name()], ":")
		info.about = strings.TrimSpace(text)
		for way := range strings.SplitSeq(ways, ",") {
			from, to, ok := strings.Cut(way, "->")
			if !ok {
				t.Fatalf("the comment of Type%s must begin with its ways, \"executor -> agent\"; it is %q", typ.Name(), about["Type"+typ.Name()])
			}
			info.routes = append(info.routes, route{strings.TrimSpace(from), strings.TrimSpace(to)})
		}
		s.messages = append(s.messages, info)
		s.visit(typ, true)
	}
	slices.SortFunc(s.messages, func(a, b messageInfo) int { return cmp.Compare(a.number, b.number) })
	return s
}

// declare notes the types and constants of one declaration.
func (s *schema) declare(g *ast.GenDecl, about map[string]string) {
	switch g.Tok {
	case token.TYPE:
		for _, spec := range g.Specs {
			ts := spec.(*ast.TypeSpec)
			s.docs[ts.Name.Name] = joined(g.Doc)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			fields := map[string]doc{}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					fields[n.Name] = doc(joined(f.Comment))
				}
			}
			s.fields[ts.Name.Name] = fields
		}
	case token.CONST:
		for _, spec := range g.Specs {
			vs := spec.(*ast.ValueSpec)
			about[vs.Names[0].Name] = joined(vs.Comment)
		}
		s.constants(g)
	}
}

// constants reads a block "A T = iota + 1; B; C".
func (s *schema) constants(g *ast.GenDecl) {
	name, first := "", 0
	var names, docs []string
	for _, spec := range g.Specs {
		vs := spec.(*ast.ValueSpec)
		if len(names) == 0 {
			id, ok := vs.Type.(*ast.Ident)
			if !ok || len(vs.Values) != 1 {
				return
			}
			switch v := vs.Values[0].(type) {
			case *ast.Ident: // iota
			case *ast.BinaryExpr: // iota + 1
				lit, ok := v.Y.(*ast.BasicLit)
				if !ok {
					return
				}
				first, _ = strconv.Atoi(lit.Value)
			default:
				return
			}
			name = id.Name
		}
		names = append(names, vs.Names[0].Name)
		docs = append(docs, joined(vs.Comment))
	}
	prefix := names[0]
	for _, n := range names {
		for !strings.HasPrefix(n, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	e := &enumInfo{names: map[uint64]string{}, values: map[string]uint64{}, docs: map[uint64]string{}}
	for i, n := range names {
		v := uint64(first + i)
		short := strings.TrimPrefix(n, prefix)
		e.names[v], e.values[short], e.docs[v] = short, v, docs[i]
	}
	s.enums[name] = e
}

func joined(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Text()), " ")
}

// visit collects the records and enumerations that a type refers to.
func (s *schema) visit(t reflect.Type, message bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		s.visit(t.Elem(), false)
	case reflect.Struct:
		if !message && t.Name() != "Word" {
			if slices.Contains(s.records, t) {
				return
			}
			s.records = append(s.records, t)
		}
		for i := range t.NumField() {
			s.visit(t.Field(i).Type, false)
		}
	case reflect.Uint8:
		if s.enums[t.Name()] != nil && !slices.Contains(s.used, t.Name()) {
			s.used = append(s.used, t.Name())
		}
	}
}

// wireType names the form of a Go type on the wire.
func (s *schema) wireType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Hash]():
		return "bin"
	case t == reflect.TypeFor[Word]():
		return s.wireType(t.Field(0).Type)
	case s.enums[t.Name()] != nil:
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("u%d", t.Bits())
	case reflect.Int32, reflect.Int64:
		return fmt.Sprintf("i%d", t.Bits())
	case reflect.Float64:
		return "float"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "str"
	case reflect.Array:
		return "id"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bin"
		}
		return "[" + s.wireType(t.Elem()) + "]"
	case reflect.Pointer:
		return s.wireType(t.Elem()) + "?"
	case reflect.Struct:
		return t.Name()
	}
	panic("no wire type for " + t.String())
}

// text is the schema for programs: one line for each enumeration, record and message.
func (s *schema) text() string {
	var b strings.Builder
	b.WriteString("# Made from the Go source by: go test ./comms -run TestSchema -update\n" +
		"# enum NAME: VALUE NAME, ...   record NAME: FIELD TYPE, ...   message NUMBER NAME FROM>TO...: FIELD TYPE, ...\n")
	for _, name := range s.used {
		e := s.enums[name]
		fmt.Fprintf(&b, "enum %s:", name)
		for i, v := range e.sorted() {
			fmt.Fprintf(&b, "%s %d %s", comma(i), v, e.names[v])
		}
		b.WriteByte('\n')
	}
	for _, r := range s.records {
		fmt.Fprintf(&b, "record %s:", r.Name())
		s.textFields(&b, r)
	}
	for _, m := range s.messages {
		fmt.Fprintf(&b, "message %d %s", m.number, m.typ.Name())
		for _, r := range m.routes {
			fmt.Fprintf(&b, " %s>%s", r.from, r.to)
		}
		b.WriteByte(':')
		s.textFields(&b, m.typ)
	}
	return b.String()
}

func (s *schema) textFields(b *strings.Builder, t reflect.Type) {
	for i := range t.NumField() {
		fmt.Fprintf(b, "%s %s %s", comma(i), t.Field(i).Name, s.wireType(t.Field(i).Type))
	}
	b.WriteByte('\n')
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func (e *enumInfo) sorted() []uint64 {
	vs := make([]uint64, 0, len(e.names))
	for v := range e.names {
		vs = append(vs, v)
	}
	slices.Sort(vs)
	return vs
}

// markdown is the reference part of docs/protocol.md.
func (s *schema) markdown() string {
	var b strings.Builder
	b.WriteString("#### Overview\n\n| no | message | from → to | |\n|---|---|---|---|\n")
	for _, m := range s.messages {
		fmt.Fprintf(&b, "| %d | [%s](#%s) | %s | %s |\n", m.number, m.typ.Name(), anchor(m), ways(m), cell(m.about))
	}
	b.WriteString("\n#### Messages\n")
	for _, m := range s.messages {
		fmt.Fprintf(&b, "\n##### %d %s\n\n%s. %s\n\n", m.number, m.typ.Name(), ways(m), s.docs[m.typ.Name()])
		s.table(&b, m.typ)
	}
	b.WriteString("\n#### Records\n")
	for _, r := range s.records {
		fmt.Fprintf(&b, "\n##### %s\n\n%s\n\n", r.Name(), s.docs[r.Name()])
		s.table(&b, r)
	}
	b.WriteString("\n#### Enumerations\n\nAll are unsigned integers. A value that a receiver does not know is kept, and treated as the most general case.\n")
	for _, name := range s.used {
		e := s.enums[name]
		fmt.Fprintf(&b, "\n##### %s\n\n%s\n\n| value | name | meaning |\n|---|---|---|\n", name, s.docs[name])
		for _, v := range e.sorted() {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", v, e.names[v], cell(e.docs[v]))
		}
	}
	return b.String()
}

func anchor(m messageInfo) string {
	return fmt.Sprintf("%d-%s", m.number, strings.ToLower(m.typ.Name()))
}

func ways(m messageInfo) string {
	var out []string
	for _, r := range m.routes {
		out = append(out, r.from+" → "+r.to)
	}
	return strings.Join(out, ", ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (s *schema) table(b *strings.Builder, t reflect.Type) {
	b.WriteString("| | field | type | meaning |\n|---|---|---|---|\n")
	for i := range t.NumField() {
		f := t.Field(i)
		fmt.Fprintf(b, "| %d | %s | %s | %s |\n", i, f.Name, s.wireType(f.Type), cell(string(s.fields[t.Name()][f.Name])))
	}
}

// byReflection encodes v as what its Go type says: fields in the order of their
// declaration. It knows nothing of the code methods.
func byReflection(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Word]() {
			return byReflection(b, v.Field(0))
		}
		b = msgpack.AppendArray(b, v.NumField())
		for i := range v.NumField() {
			b = byReflection(b, v.Field(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, msgpack.Nil)
		}
		return byReflection(b, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return msgpack.AppendBytes(b, v.Bytes())
		}
		b = msgpack.AppendArray(b, v.Len())
		for i := range v.Len() {
			b = byReflection(b, v.Index(i))
		}
		return b
	case reflect.Array:
		id := v.Interface().(JobID)
		return msgpack.AppendBytes(b, id[:])
	case reflect.String:
		if v.Type() == reflect.TypeFor[Hash]() {
			return msgpack.AppendBytes(b, v.String())
		}
		return msgpack.AppendString(b, v.String())
	case reflect.Bool:
		return msgpack.AppendBool(b, v.Bool())
	case reflect.Float64:
		return msgpack.AppendFloat(b, v.Float())
	case reflect.Int32, reflect.Int64:
		return msgpack.AppendInt(b, v.Int())
	}
	return msgpack.AppendUint(b, v.Uint())
}

// The order of fields on the wire is the order in which the Go struct declares
// them: the tables of the document rest on it.
func TestWireOrderIsDeclarationOrder(t *testing.T) {
	for _, m := range everyMessage() {
		var n uint64
		v := reflect.ValueOf(m).Elem()
		fill(v, &n)
		want := byReflection(msgpack.AppendUint([]byte{0x92}, uint64(m.Type())), v)
		if got := Encode(m); string(got) != string(want) {
			t.Errorf("%T\nencodes as %x\nits fields in order are %x", m, got, want)
		}
	}
}

const (
	protocolDoc = "../docs/protocol.md"
	tableBegin  = "<!-- made from the Go source by: go test ./comms -run TestSchema -update -->\n"
	tableEnd    = "<!-- end of the tables -->\n"
)

// The schema file and the tables of docs/protocol.md say what the code does.
func TestSchema(t *testing.T) {
	s := loadSchema(t)
	golden(t, "testdata/transcripts/schema.txt", s.text())
	file, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(file), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", protocolDoc, tableBegin, tableEnd)
	}
	golden(t, protocolDoc, before+tableBegin+"\n"+s.markdown()+"\n"+tableEnd+after)
}

// golden compares a file with what it should hold, or writes it with -update.
func golden(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) == want {
		return
	}
	a, b := strings.Split(string(have), "\n"), strings.Split(want, "\n")
	for i := range b {
		if i >= len(a) || a[i] != b[i] {
			t.Fatalf("%s:%d is out of date (run with -update and read the difference): want\n%s", path, i+1, b[i])
		}
	}
	t.Fatalf("%s has %d lines too many (run with -update)", path, len(a)-len(b))
}
