package dag

import (
	"fmt"
	"strings"
)

// ref is a parsed reference: GROUP[index, ...].OUTPUT[element].
type ref struct {
	group  string
	index  []selector // nil when nothing is in brackets
	output string     // "" when left out
	elem   *selector  // nil when nothing is in brackets
}

// selector is one index: everything, or a text with placeholders.
type selector struct {
	all  bool
	text string
}

const refForm = `write TASK, TASK.OUTPUT, TASK[INDEX].OUTPUT or TASK.OUTPUT[ELEMENT]; an index is a value, ${...} or *`

// parseRef reads a reference as written in a job file. It does not look anything up.
func parseRef(s string) (r ref, err error) {
	bad := func(what string) (ref, error) {
		return ref{}, mistake(fmt.Sprintf("reference %q: %s", s, what), refForm)
	}
	rest := s
	r.group, rest = takeName(rest)
	if r.group == "" {
		return bad("it does not start with the name of a task")
	}
	if strings.HasPrefix(rest, "[") {
		if r.index, rest, err = takeIndex(rest); err != nil {
			return bad(err.Error())
		}
	}
	if rest == "" {
		return r, nil
	}
	if rest[0] != '.' {
		return bad(fmt.Sprintf("unexpected %q", rest))
	}
	r.output, rest = takeName(rest[1:])
	if r.output == "" {
		return bad("the name of the output is missing after the dot")
	}
	if strings.HasPrefix(rest, "[") {
		var sel []selector
		if sel, rest, err = takeIndex(rest); err != nil {
			return bad(err.Error())
		}
		if len(sel) != 1 {
			return bad("an output has one element number")
		}
		r.elem = &sel[0]
	}
	if rest != "" {
		return bad(fmt.Sprintf("unexpected %q", rest))
	}
	return r, nil
}

// takeName splits off a leading name.
func takeName(s string) (name, rest string) {
	n := 0
	for n < len(s) && isNameByte(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// takeIndex splits off a leading bracket of selectors. Commas and brackets
// inside ${...} belong to the expression.
func takeIndex(s string) (sel []selector, rest string, err error) {
	start := 1
	for i := 1; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			end := placeholderEnd(s, i)
			if end < 0 {
				return nil, "", fmt.Errorf("placeholder ${ without its closing brace")
			}
			i = end
		case s[i] == ',' || s[i] == ']':
			text := strings.TrimSpace(s[start:i])
			if text == "" {
				return nil, "", fmt.Errorf("an index is empty")
			}
			sel = append(sel, selector{all: text == "*", text: text})
			if s[i] == ']' {
				return sel, s[i+1:], nil
			}
			i++
			start = i
		default:
			i++
		}
	}
	return nil, "", fmt.Errorf("the closing bracket is missing")
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

const (
	maxNameLen = 200
	nameForm   = "letters, digits, _ and -, starting with a letter or _"
)

// checkName tells why a name of a task, input, output or environment cannot be used.
func checkName(kind, name string) error {
	switch {
	case name == "":
		return mistake("the name of "+kind+" is empty", nameForm)
	case len(name) > maxNameLen:
		return mistake(fmt.Sprintf("the name of %s has %d characters", kind, len(name)), fmt.Sprintf("at most %d", maxNameLen))
	}
	first := name[0]
	ok := first == '_' || first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z'
	for i := 0; ok && i < len(name); i++ {
		ok = isNameByte(name[i])
	}
	if !ok {
		return mistake(fmt.Sprintf("%q cannot be the name of %s", clip(name), kind), nameForm)
	}
	return nil
}

// checkVariable is checkName for names that stand in expressions.
func checkVariable(kind, name string) error {
	if err := checkName(kind, name); err != nil {
		return err
	}
	if strings.Contains(name, "-") {
		return mistake(fmt.Sprintf("%q cannot be the name of %s", name, kind), "letters, digits and _: expressions would read - as minus")
	}
	switch name {
	case paramsIdent, "in", "out", "true", "false", "nil", "not", "and", "or", "let", "if", "else", "matches", "contains", "startsWith", "endsWith":
		return mistake(fmt.Sprintf("%q cannot be the name of %s", name, kind), "the name has a meaning in expressions; choose another")
	}
	return nil
}

// clip shortens what a message quotes.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:77] + "..."
}
