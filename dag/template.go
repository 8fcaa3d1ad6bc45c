package dag

import (
	"fmt"
	"strings"
)

// template is a text with placeholders: literal parts and expressions in turn.
type template struct {
	parts []templatePart
}

type templatePart struct {
	text string
	expr *expression // nil for literal text
}

// hasPlaceholder tells whether a text needs a template: it holds "${", which
// also starts the escape "$${".
func hasPlaceholder(s string) bool { return strings.Contains(s, "${") }

// segment is a piece of a text before compilation.
type segment struct {
	text string
	expr bool
}

// segments splits a text at its placeholders. "$${" stands for a literal "${".
func segments(s string) ([]segment, error) {
	var out []segment
	var lit strings.Builder
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			lit.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			end := placeholderEnd(s, i)
			if end < 0 {
				return nil, mistake("placeholder ${ without its closing brace", "write ${...}, or $${ for a literal ${")
			}
			if lit.Len() > 0 {
				out = append(out, segment{text: lit.String()})
				lit.Reset()
			}
			out = append(out, segment{text: strings.TrimSpace(s[i+2 : end-1]), expr: true})
			i = end
		default:
			lit.WriteByte(s[i])
			i++
		}
	}
	if lit.Len() > 0 {
		out = append(out, segment{text: lit.String()})
	}
	return out, nil
}

// placeholderEnd returns the position after the brace that closes the ${ at i, or -1.
// Braces inside nested braces and quotes do not count.
func placeholderEnd(s string, i int) int {
	depth := 0
	var quote byte
	for j := i + 1; j < len(s); j++ {
		c := s[j]
		switch {
		case quote != 0:
			switch c {
			case '\\':
				j++
			case quote:
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '{':
			depth++
		case c == '}':
			depth--
			if depth == 0 {
				return j + 1
			}
		}
	}
	return -1
}

// escapeText is the inverse of segments for literal text.
func escapeText(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// template compiles a text with placeholders.
func (ps programs) template(s string, sc *scope) (*template, error) {
	segs, err := segments(s)
	if err != nil {
		return nil, err
	}
	t := &template{parts: make([]templatePart, len(segs))}
	for i, sg := range segs {
		t.parts[i].text = sg.text
		if !sg.expr {
			continue
		}
		if t.parts[i].expr, err = ps.compile(sg.text, sc); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// constant tells whether the text is the same for each task.
func (t *template) constant() bool {
	for _, p := range t.parts {
		if p.expr != nil && !p.expr.constant() {
			return false
		}
	}
	return true
}

// uses tells whether the text depends on a variable.
func (t *template) uses(slot int) bool {
	for _, p := range t.parts {
		if p.expr != nil && p.expr.uses(slot) {
			return true
		}
	}
	return false
}

// eval replaces the placeholders. A text that is one placeholder keeps its type.
func (t *template) eval(sc *scope, r row) (any, error) {
	if len(t.parts) == 1 && t.parts[0].expr != nil {
		return t.parts[0].expr.eval(sc, r)
	}
	return t.textOf(sc, r)
}

// textOf replaces the placeholders where a text is wanted.
func (t *template) textOf(sc *scope, r row) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		s := p.text
		if p.expr != nil {
			var err error
			if s, err = p.expr.text(sc, r); err != nil {
				return "", err
			}
		}
		b.WriteString(s)
		if b.Len() > maxTextLen && len(t.parts) > 1 {
			return "", fmt.Errorf("text longer than %d bytes after its placeholders are replaced", maxTextLen)
		}
	}
	return b.String(), nil
}

// noRow is the row of texts outside any loop.
type noRow struct{}

func (noRow) value(int) any             { return nil }
func (noRow) integer(int) (int64, bool) { return 0, false }

// bind returns the value with each text that has placeholders replaced by its
// compiled *template; evalBound gives the value for one task.
func (ps programs) bind(v any, sc *scope) (any, error) {
	if x, ok := v.(string); ok && hasPlaceholder(x) {
		return ps.template(x, sc)
	}
	return mapped(v, func(e any) (any, error) { return ps.bind(e, sc) })
}

func evalBound(v any, sc *scope, r row) (any, error) {
	if x, ok := v.(*template); ok {
		return x.eval(sc, r)
	}
	return mapped(v, func(e any) (any, error) { return evalBound(e, sc, r) })
}

// evalText is evalBound where a text is wanted.
func evalText(v any, sc *scope, r row) (string, error) {
	if x, ok := v.(*template); ok {
		return x.textOf(sc, r)
	}
	return valueText(v)
}

// mapped returns v with f applied to the members of a list or mapping; any other value is returned as it is.
func mapped(v any, f func(any) (any, error)) (any, error) {
	switch x := v.(type) {
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			n, err := f(e)
			if err != nil {
				return nil, err
			}
			out[i] = n
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for _, k := range keysOf(x) { // in order: the first error is the same each time
			n, err := f(x[k])
			if err != nil {
				return nil, err
			}
			out[k] = n
		}
		return out, nil
	}
	return v, nil
}

// resolveValue replaces the placeholders in every text of a value.
func (ps programs) resolveValue(v any, sc *scope, r row) (any, error) {
	b, err := ps.bind(v, sc)
	if err != nil {
		return nil, err
	}
	return evalBound(b, sc, r)
}

// valueHasPlaceholder tells whether any text of a value needs resolveValue.
func valueHasPlaceholder(v any) bool {
	switch x := v.(type) {
	case string:
		return hasPlaceholder(x)
	case []any:
		for _, e := range x {
			if valueHasPlaceholder(e) {
				return true
			}
		}
	case map[string]any:
		for _, e := range x {
			if valueHasPlaceholder(e) {
				return true
			}
		}
	}
	return false
}
