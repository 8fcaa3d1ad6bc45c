package dag

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// loader walks one YAML file and collects its problems.
type loader struct {
	file     string
	problems Problems
	visits   int // nodes still to be looked at: aliases can repeat parts of a file without end
	ps       programs
	sc       *scope // the parameters
	refused  map[*yaml.Node]bool
}

// spareVisits is how many nodes aliases may add to a file.
const spareVisits = 100_000

func newLoader(file string, size int) *loader {
	return &loader{file: file, visits: size + spareVisits, ps: programs{}, refused: map[*yaml.Node]bool{}, sc: &scope{params: map[string]any{}}}
}

func (l *loader) add(line, col int, message, hint string) {
	l.problems = append(l.problems, Problem{File: l.file, Line: line, Col: col, Message: message, Hint: hint})
}

// problem reports a mistake; not a further one of a node that was refused.
func (l *loader) problem(n *yaml.Node, message, hint string) {
	if !l.refused[n] {
		l.add(n.Line, n.Column, message, hint)
	}
}

func (l *loader) fail(n *yaml.Node, err error) {
	if errors.Is(err, errReported) {
		return
	}
	message, hint := splitHint(err)
	l.problem(n, message, hint)
}

// document reads the single document of a file; nil after a problem or when the file is empty.
func (l *loader) document(data []byte, maxBytes int) *yaml.Node {
	if len(data) > maxBytes {
		l.add(1, 1, fmt.Sprintf("the file has %d bytes: at most %d are read", len(data), maxBytes), "generate large jobs with for, or raise the limit")
		return nil
	}
	if at, ok := validUTF8(data); !ok {
		line := 1 + bytes.Count(data[:at], []byte("\n"))
		l.add(line, at-bytes.LastIndexByte(data[:at], '\n'), "the file is not UTF-8 text here", "save it as UTF-8")
		return nil
	}
	docs, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		l.add(1, 1, err.Error(), "")
		return nil
	}
	var doc yaml.Node
	if err := docs.Load(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		l.syntax(data, err)
		return nil
	}
	var second yaml.Node
	if err := docs.Load(&second); err == nil {
		l.add(max(second.Line, 1), max(second.Column, 1), "the file has a second document", "remove the line --- and what follows")
	} else if !errors.Is(err, io.EOF) {
		l.syntax(data, err)
		return nil
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	l.tags(root)
	return root
}

// tags refuses nodes with tags that are not of their kind: a tag asks for something that is not done.
func (l *loader) tags(n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		l.tag(n, "!!seq")
	case yaml.MappingNode:
		l.tag(n, "!!map")
	case yaml.ScalarNode:
		l.tag(n, "!!null", "!!bool", "!!str", "!!timestamp", "!!merge", "!!int", "!!float")
	}
	for _, c := range n.Content {
		l.tags(c)
	}
}

func (l *loader) tag(n *yaml.Node, known ...string) {
	if tag := n.ShortTag(); n.Style&yaml.TaggedStyle != 0 && !slices.Contains(known, tag) {
		l.fail(n, unknownTag(tag))
		l.refused[n] = true
	}
}

func validUTF8(data []byte) (at int, ok bool) {
	if utf8.Valid(data) {
		return 0, true
	}
	for at < len(data) {
		c, n := utf8.DecodeRune(data[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at, false
}

// syntax reports what the YAML library could not read.
func (l *loader) syntax(data []byte, err error) {
	var le *yaml.LoadError
	if errors.As(err, &le) {
		line, col := le.Mark.Line, le.Mark.Column
		message := le.Message
		if le.ContextMsg != "" {
			message = le.ContextMsg + ": " + message
		}
		if indentedByTab(data, line) {
			l.add(max(line, 1), max(col, 1), "the line is indented by a tab", "YAML takes spaces only: replace each tab by them")
			return
		}
		l.add(max(line, 1), max(col, 1), "not YAML: "+message, "check indentation, quotes and brackets; put quotes around text with ${, [ or : in it")
		return
	}
	l.add(1, 1, "not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "check indentation, quotes and brackets")
}

// indentedByTab tells whether a tab stands before the text of a line, counted from 1.
func indentedByTab(data []byte, line int) bool {
	for l := range bytes.Lines(data) {
		if line--; line == 0 {
			return bytes.ContainsRune(l[:len(l)-len(bytes.TrimLeft(l, " \t"))], '\t')
		}
	}
	return false
}

// visit follows an alias and counts the node; nil when the budget is used up.
func (l *loader) visit(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return nil
	}
	if l.visits--; l.visits == 0 {
		l.problem(n, "aliases repeat too much of the file", "write the repeated parts out, or use for")
	}
	if l.visits < 0 {
		return nil
	}
	return n
}

// pair is one entry of a mapping.
type pair struct {
	key *yaml.Node
	val *yaml.Node // alias followed
}

// pairs returns the entries of a mapping, merge keys applied. what names the mapping in messages.
func (l *loader) pairs(n *yaml.Node, what string) []pair {
	return l.pairsAt(n, what, 0)
}

func (l *loader) pairsAt(n *yaml.Node, what string, depth int) []pair {
	n = l.visit(n)
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	if depth > maxDepth {
		l.problem(n, what+" merges itself", "remove the alias after <<")
		l.visits = 0
		return nil
	}
	if n.Kind != yaml.MappingNode {
		l.problem(n, fmt.Sprintf("%s is %s", what, nodeKind(n)), "write it as a mapping: name: value")
		return nil
	}
	out := make([]pair, 0, len(n.Content)/2)
	var seen map[string]bool
	if len(n.Content) > 16 {
		seen = make(map[string]bool, len(n.Content)/2)
	}
	var merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
			merged = append(merged, l.merge(n.Content[i+1], what, depth)...)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			l.problem(k, fmt.Sprintf("a key of %s is %s", what, nodeKind(k)), "keys are plain text")
			continue
		}
		if hasKey(out, seen, k.Value) {
			l.problem(k, fmt.Sprintf("%q is there twice in %s", clip(k.Value), what), "remove one of them")
			continue
		}
		v := l.visit(n.Content[i+1])
		if v == nil {
			return nil
		}
		if seen != nil {
			seen[k.Value] = true
		}
		out = append(out, pair{k, v})
	}
	for _, m := range merged {
		if !hasKey(out, seen, m.key.Value) {
			out = append(out, m)
		}
	}
	return out
}

func hasKey(ps []pair, seen map[string]bool, key string) bool {
	if seen != nil {
		return seen[key]
	}
	return slices.ContainsFunc(ps, func(p pair) bool { return p.key.Value == key })
}

// merge returns the entries that << adds: of one mapping, or of a list of them.
func (l *loader) merge(n *yaml.Node, what string, depth int) []pair {
	n = l.visit(n)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return l.pairsAt(n, what, depth+1)
	}
	var out []pair
	for _, c := range n.Content {
		for _, p := range l.pairsAt(c, what, depth+1) {
			if !hasKey(out, nil, p.key.Value) {
				out = append(out, p)
			}
		}
	}
	return out
}

// keyed is pairs where only the known keys may appear.
func (l *loader) keyed(n *yaml.Node, what string, known []string) []pair {
	ps := l.pairs(n, what)
	return slices.DeleteFunc(ps, func(p pair) bool {
		if slices.Contains(known, p.key.Value) {
			return false
		}
		l.problem(p.key, fmt.Sprintf("unknown key %q in %s", clip(p.key.Value), what), nearest(p.key.Value, known, "known are "+strings.Join(known, ", ")))
		return true
	})
}

// items returns the entries of a list, aliases followed.
func (l *loader) items(n *yaml.Node, what string) []*yaml.Node {
	if n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		l.problem(n, fmt.Sprintf("%s is %s", what, nodeKind(n)), "write it as a list: [a, b]")
		return nil
	}
	out := make([]*yaml.Node, 0, len(n.Content))
	for _, c := range n.Content {
		if c = l.visit(c); c == nil {
			return nil
		}
		out = append(out, c)
	}
	return out
}

func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return "an empty value"
		case "!!str":
			return "a text"
		}
		return "a single value"
	}
	return "of another kind"
}

// raw returns a scalar's text as written, placeholders not replaced.
func (l *loader) raw(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		l.problem(n, fmt.Sprintf("%s is %s", what, nodeKind(n)), "write it as text")
		return "", false
	}
	if err := checkText(n.Value); err != nil {
		l.fail(n, err)
		return "", false
	}
	return n.Value, true
}

// text returns a scalar as text with parameters replaced.
func (l *loader) text(n *yaml.Node, what string) (string, bool) {
	s, ok := l.raw(n, what)
	if !ok || !hasPlaceholder(s) {
		return s, ok
	}
	var out string
	t, err := l.ps.template(s, l.sc)
	if err == nil {
		out, err = t.textOf(l.sc, noRow{})
	}
	if err == nil {
		err = checkText(out)
	}
	if err != nil {
		l.fail(n, fmt.Errorf("%s: %w", what, err))
		return "", false
	}
	return out, true
}

func (l *loader) resolved(n *yaml.Node, s, what string) (any, bool) {
	v, err := l.ps.resolveValue(s, l.sc, noRow{})
	if err != nil {
		l.fail(n, fmt.Errorf("%s: %w", what, err))
		return nil, false
	}
	return v, true
}

// scalar returns a scalar's value with parameters replaced.
func (l *loader) scalar(n *yaml.Node, what string) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		l.problem(n, fmt.Sprintf("%s is %s", what, nodeKind(n)), "write a single value")
		return nil, false
	}
	v, err := scalarValue(n)
	if err != nil {
		l.fail(n, err)
		return nil, false
	}
	if s, isText := v.(string); isText && hasPlaceholder(s) {
		return l.resolved(n, s, what)
	}
	return v, true
}

// whole returns a whole number within bounds.
func (l *loader) whole(n *yaml.Node, what string, lo, hi int64) int64 {
	v, ok := l.scalar(n, what)
	if !ok {
		return 0
	}
	i, ok := v.(int64)
	if f, isFloat := v.(float64); isFloat && !ok {
		i, ok = wholeNumber(f)
	}
	if !ok {
		l.problem(n, fmt.Sprintf("%s is %s, not a whole number", what, quoteValue(v)), fmt.Sprintf("write a number from %d", lo))
		return 0
	}
	if i < lo || i > hi {
		l.problem(n, fmt.Sprintf("%s is %d", what, i), fmt.Sprintf("it must be from %d to %d", lo, hi))
		return 0
	}
	return i
}

// truth returns true or false.
func (l *loader) truth(n *yaml.Node, what string) bool {
	v, ok := l.scalar(n, what)
	b, isBool := v.(bool)
	if ok && !isBool {
		l.problem(n, fmt.Sprintf("%s is %s", what, quoteValue(v)), "write true or false")
	}
	return b
}

// quoteValue prints a value for a message.
func quoteValue(v any) string {
	switch x := v.(type) {
	case string:
		return strconv.Quote(clip(x))
	case float64:
		return floatText(x)
	case nil, []any, map[string]any:
		return "a " + kindOf(v)
	}
	return fmt.Sprint(v)
}

// value turns any node into a value, placeholders not replaced.
func (l *loader) value(n *yaml.Node) (any, bool) { return l.valueAt(n, 0, nil, "") }

// valueAt is value for a node at a place of a parameter; it notes the spellings of numbers.
func (l *loader) valueAt(n *yaml.Node, depth int, spelled Spellings, place string) (any, bool) {
	if n = l.visit(n); n == nil || l.refused[n] {
		return nil, false
	}
	if depth > maxDepth {
		l.problem(n, fmt.Sprintf("values are nested deeper than %d", maxDepth), "an alias may contain itself")
		l.visits = 0
		return nil, false
	}
	switch n.Kind {
	case yaml.ScalarNode:
		v, err := scalarValue(n)
		if err == nil {
			err = checkValue(v, 0)
		}
		if err != nil {
			l.fail(n, err)
		}
		spelled.note(place, v, n.Value)
		return v, err == nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			v, ok := l.valueAt(c, depth+1, spelled, spelled.item(place, i))
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	}
	out := map[string]any{}
	for _, p := range l.pairsAt(n, "a mapping", depth) {
		v, ok := l.valueAt(p.val, depth+1, spelled, spelled.member(place, p.key.Value))
		if !ok {
			return nil, false
		}
		out[p.key.Value] = v
	}
	return out, true
}

// scalarValue reads a scalar: nil, bool, int64, float64 or string. Text that looks
// like a date, or a number with a leading zero or underscores, stays text.
func scalarValue(n *yaml.Node) (any, error) {
	s := n.Value
	tag := n.ShortTag()
	wrong := func(what string) error {
		return mistake(fmt.Sprintf("%q has the YAML tag %s and is no %s", clip(s), tag, what), "write the value without a tag")
	}
	switch tag {
	case "!!null":
		if n.Style&yaml.TaggedStyle != 0 && s != "" && s != "~" && !strings.EqualFold(s, "null") {
			return nil, wrong("null")
		}
		return nil, nil
	case "!!bool":
		if !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false") {
			return nil, wrong("truth value")
		}
		return strings.EqualFold(s, "true"), nil
	case "!!str", "!!timestamp", "!!merge":
		return s, nil
	case "!!int", "!!float":
		digits := strings.TrimLeft(s, "+-")
		if strings.Contains(s, "_") || len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
			return s, nil
		}
		i, err := strconv.ParseInt(s, 0, 64)
		tagged := n.Style&yaml.TaggedStyle != 0
		switch { // YAML calls -0 a number with decimals, and what is whole and too large
		case err == nil && (tag == "!!int" || !tagged):
			return i, nil
		case tag == "!!int" && !isWhole(s):
			return nil, wrong("whole number")
		case tag == "!!int", !tagged && err != nil && isWhole(s):
			return nil, tooLarge(s)
		}
		f, err := strconv.ParseFloat(s, 64)
		if err == nil {
			_, err = normalise(f, 0)
		}
		if err != nil {
			return nil, tooLarge(s)
		}
		return f, nil
	default:
		return nil, unknownTag(tag)
	}
}

func unknownTag(tag string) error {
	return mistake(fmt.Sprintf("the YAML tag %s is not supported", clip(tag)), "write the value without a tag")
}

// isWhole tells whether a number is written as a whole one, of any size.
func isWhole(s string) bool {
	_, err := strconv.ParseInt(s, 0, 64)
	return err == nil || strings.Trim(s, "+-0123456789") == ""
}

func tooLarge(s string) error {
	return mistake(fmt.Sprintf("the number %s is not finite or does not fit into 64 bits", clip(s)), "quote it to keep it as text")
}
