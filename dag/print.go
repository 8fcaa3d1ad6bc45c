package dag

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// YAML prints the graph as a job file. Reading it again, without overrides,
// gives an equal graph, and printing that gives the same bytes. Loops over
// generators of fixed count are printed as ranges.
func (g *Graph) YAML() ([]byte, error) {
	if g.index.groups == nil {
		return nil, fmt.Errorf("print job: the graph was not made by ParseYAML, Builder or Decode")
	}
	p := &printer{g: g}
	p.line(0, "job", quote(escapeText(g.Name)))
	if g.KeepGoing {
		p.line(0, "keep_going", "true")
	}
	if g.Retain {
		p.line(0, "retain", "true")
	}
	if g.Rebuilt != RebuiltDefault {
		p.line(0, "rebuilt", g.Rebuilt.String())
	}
	if len(g.Params) > 0 {
		p.line(0, "params", "")
		for _, x := range g.Params {
			p.line(1, x.Name, x.Text())
		}
	}
	if len(g.Environments) > 0 {
		p.line(0, "environments", "")
		for i := range g.Environments {
			p.line(1, g.Environments[i].Name, environmentText(&g.Environments[i]))
		}
	}
	inputs := g.InputGroups()
	if len(inputs) > 0 {
		p.line(0, "inputs", "")
		for i := range inputs {
			p.input(&inputs[i])
		}
	}
	p.line(0, "tasks", "")
	for i := range g.Groups[len(inputs):] {
		p.group(&g.Groups[len(inputs)+i])
	}
	if len(g.Exports) > 0 {
		p.line(0, "outputs", "")
		for i := range g.Exports {
			ex := &g.Exports[i]
			text := quote(ex.From.Text)
			if ex.Path != "" {
				text = "{from: " + text + ", to: " + quote(escapeText(ex.Path)) + "}"
			}
			p.b.WriteString("  - " + text + "\n")
		}
	}
	return p.b.Bytes(), nil
}

type printer struct {
	g *Graph
	b bytes.Buffer
}

// line writes "key: value" at a depth.
func (p *printer) line(depth int, key, value string) {
	for range depth {
		p.b.WriteString("  ")
	}
	p.b.WriteString(quote(key))
	p.b.WriteByte(':')
	if value != "" {
		p.b.WriteByte(' ')
		p.b.WriteString(value)
	}
	p.b.WriteByte('\n')
}

func (p *printer) group(grp *Group) {
	p.line(1, grp.Name, "")
	if loops := p.loops(grp); len(loops) > 0 {
		p.line(2, "for", "{"+strings.Join(loops, ", ")+"}")
	}
	if grp.Gang != GangNone {
		p.line(2, "gang", strconv.Itoa(grp.GangSize()))
	}
	p.run(&grp.Run)
	if len(grp.Inputs) > 0 {
		p.line(2, "in", "")
		for i := range grp.Inputs {
			p.line(3, grp.Inputs[i].Name, inputText(&grp.Inputs[i]))
		}
	}
	p.outputs(grp)
	for _, part := range []struct {
		key    string
		fields []Field
	}{{"with", grp.With}, {"env", grp.Env}} {
		if len(part.fields) > 0 {
			p.line(2, part.key, "")
			for _, f := range part.fields {
				p.line(3, f.Name, flow(f.Value))
			}
		}
	}
	p.limits(grp)
}

// limits prints what bounds a group's tasks.
func (p *printer) limits(grp *Group) {
	if r := resourcesText(&grp.Resources); r != "" {
		p.line(2, "resources", "{"+r+"}")
	}
	if grp.Retries != 0 {
		p.line(2, "retries", strconv.Itoa(grp.Retries))
	}
	if grp.Timeout != 0 {
		p.line(2, "timeout", grp.Timeout.String())
	}
	if grp.Deadline != 0 {
		p.line(2, "deadline", grp.Deadline.String())
	}
	if grp.Priority != 0 {
		p.line(2, "priority", strconv.Itoa(grp.Priority))
	}
	if grp.KeepGoing {
		p.line(2, "keep_going", "true")
	}
}

func (p *printer) loops(grp *Group) []string {
	var out []string
	if st := grp.Stream; st != nil {
		gen := p.g.Group(st.Generator)
		out = append(out, st.Var+": "+quote(p.g.TaskName(st.Generator)+"."+gen.Outputs[st.Output].Name+"[*]"))
	}
	for i := range grp.loops() {
		a := &grp.Axes[i]
		text := fmt.Sprintf("%d..%d", a.First, a.First+a.N-1)
		if a.Values != nil {
			text = flow(a.Values)
		}
		out = append(out, a.Var+": "+text)
	}
	return out
}

func (p *printer) run(run *Run) {
	switch {
	case run.Function != "" && run.Environment != "":
		p.line(2, "run", quote(run.Environment+":"+run.Function))
	case run.Function != "":
		p.line(2, "run", quote(run.Function))
	case isShell(run.Command):
		p.line(2, "command", quote(run.Command[2].String()))
	default:
		words := make([]string, len(run.Command))
		for i, a := range run.Command {
			words[i] = quote(a.String())
		}
		p.line(2, "command", "["+strings.Join(words, ", ")+"]")
	}
	if run.Function == "" && run.Environment != "" {
		p.line(2, "environment", quote(run.Environment))
	}
	if run.Stdin != "" {
		p.line(2, "stdin", quote(run.Stdin))
	}
	if run.Stdout != "" {
		p.line(2, "stdout", quote(run.Stdout))
	}
}

// isShell tells whether a command was, or could have been, written as one text.
func isShell(words []Arg) bool {
	if len(words) != 3 || strings.TrimSpace(words[2].String()) == "" {
		return false
	}
	for i, w := range shellWords() {
		if len(words[i]) != 1 || words[i][0] != w[0] {
			return false
		}
	}
	return true
}

func inputText(d *InputDecl) string {
	var text string
	if len(d.From) == 1 && (!d.List || hasStar(d.From[0].Text)) {
		text = quote(d.From[0].Text)
	} else {
		words := make([]string, len(d.From))
		for i := range d.From {
			words[i] = quote(d.From[i].Text)
		}
		text = "[" + strings.Join(words, ", ") + "]"
	}
	if d.Min > 0 {
		return fmt.Sprintf("{from: %s, min: %d}", text, d.Min)
	}
	return text
}

func (p *printer) outputs(grp *Group) {
	var plain, generated []string
	for i := range grp.Outputs {
		o := &grp.Outputs[i]
		count := `"*"`
		switch o.Generate {
		case GenerateNone:
			plain = append(plain, quote(o.Name))
			continue
		case GenerateFixed:
			count = strconv.FormatUint(o.Count, 10)
		}
		if o.Buffer > 0 {
			count = fmt.Sprintf("{count: %s, buffer: %d}", count, o.Buffer)
		}
		generated = append(generated, quote(o.Name)+": "+count)
	}
	if len(plain) > 0 {
		p.line(2, "out", "["+strings.Join(plain, ", ")+"]")
	}
	if len(generated) > 0 {
		p.line(2, "generates", "{"+strings.Join(generated, ", ")+"}")
	}
}

func resourcesText(r *Resources) string {
	var w []string
	if r.CPU > 0 {
		w = append(w, "cpu: "+thousandthsText(r.CPU))
	}
	if r.Memory != 0 {
		w = append(w, "memory: "+memoryText(r.Memory))
	}
	if r.MemoryMax != 0 {
		w = append(w, memoryMax+": "+memoryText(r.MemoryMax))
	}
	if r.GPU != 0 {
		w = append(w, "gpu: "+thousandthsText(r.GPU))
	}
	if r.GPUMemory != 0 {
		w = append(w, gpuMemory+": "+memoryText(r.GPUMemory))
	}
	for _, k := range sortedKeys(r.Custom) {
		w = append(w, quote(k)+": "+thousandthsText(r.Custom[k]))
	}
	return strings.Join(w, ", ")
}

func thousandthsText(n int64) string {
	s := strconv.FormatInt(n/1000, 10)
	if n%1000 != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%03d", n%1000), "0")
	}
	return s
}

// memoryText prints the largest unit that divides the bytes.
func memoryText(n int64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := int64(1) << (40 - 10*i); n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	if n < leastPlain {
		return strconv.FormatInt(n, 10) + "B"
	}
	return strconv.FormatInt(n, 10)
}

// escapeValue escapes the texts of a value that would be read as placeholders.
func escapeValue(v any) any {
	switch x := v.(type) {
	case string:
		return escapeText(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = escapeValue(x[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k := range x {
			out[k] = escapeValue(x[k])
		}
		return out
	}
	return v
}

// flow prints a value on one line.
func flow(v any) string {
	var b strings.Builder
	writeFlow(&b, v, nil, "")
	return b.String()
}

// Text prints a parameter's value on one line of YAML, its numbers so that they read back with their spellings.
func (p *Param) Text() string {
	var b strings.Builder
	writeFlow(&b, escapeValue(p.Value), func(place string, v any) string {
		text, spelled := p.Spelled[place]
		if !spelled {
			text, _ = valueText(v)
		}
		if _, isFloat := v.(float64); isFloat {
			if isWhole(text) {
				return "!!float " + text // 3.0 would be another spelling of it
			}
		}
		return text
	}, "")
	return b.String()
}

// writeFlow prints a value that stands at a place of a parameter; number may print numbers in another way.
func writeFlow(b *strings.Builder, v any, number func(place string, v any) string, place string) {
	switch x := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case int64:
		if number != nil {
			b.WriteString(number(place, x))
			return
		}
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		if number != nil {
			b.WriteString(number(place, x))
			return
		}
		b.WriteString(formatFloat(x))
	case string:
		b.WriteString(quote(x))
	case []any:
		b.WriteByte('[')
		for i, c := range x {
			if i > 0 {
				b.WriteString(", ")
			}
			writeFlow(b, c, number, place+itemPlace(i))
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, k := range keysOf(x) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(k))
			b.WriteString(": ")
			writeFlow(b, x[k], number, place+memberPlace(k))
		}
		b.WriteByte('}')
	}
}

// quote prints a text so that YAML reads it back as that text in every context.
func quote(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plain tells whether a text may stand without quotes: names and paths, and
// ENVIRONMENT:FUNCTION, that no YAML version takes for another type.
func plain(s string) bool {
	if s == "" || s[len(s)-1] == ':' {
		return false
	}
	if c := s[0]; c != '_' && c != '/' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !strings.HasPrefix(s, "./") {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isNameByte(c) && c != '.' && c != '/' && c != ':' {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}
