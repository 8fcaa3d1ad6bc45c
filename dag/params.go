package dag

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Override changes the parameters of a job file. Later ones win: the job file's
// own value, Data, Environ, Flags.
type Override struct {
	File    string   // name of the parameter file, for messages
	Data    []byte   // its content, a YAML mapping of names to values; nil if there is none
	Environ []string // the process's environment, "KEY=value"; only CASCADE_PARAM_NAME counts, in any case, - as _
	Flags   []string // "name=value" in the order given
}

const environPrefix = "CASCADE_PARAM_"

// params reads the parameters, applies the overrides and makes them known to expressions.
func (j *jobFile) params(n *yaml.Node, over Override) {
	var places []*yaml.Node
	if n != nil {
		for _, p := range j.pairs(n, "params") {
			spelled := Spellings{}
			v, ok := j.valueAt(p.val, 0, spelled, "")
			if !ok {
				j.sc.breaks(p.key.Value)
			}
			j.g.Params = append(j.g.Params, Param{p.key.Value, v, spelled})
			places = append(places, p.val)
		}
	}
	set := make([]bool, len(j.g.Params))
	j.paramFile(over, set)
	for _, kv := range over.Environ {
		if key, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(key, environPrefix) {
			j.paramText(key[len(environPrefix):], value, key, sameEnvironName, set)
		}
	}
	for _, kv := range over.Flags {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			j.elsewhere("--param", mistake(fmt.Sprintf("--param %s has no value", clip(kv)), "write --param NAME=VALUE"))
			continue
		}
		j.paramText(name, value, "--param "+clip(name), func(a, b string) bool { return a == b }, set)
	}
	for i := range j.g.Params {
		p := &j.g.Params[i]
		if !set[i] && valueHasPlaceholder(p.Value) { // defaults may use the parameters above them
			v, err := j.ps.resolveValue(p.Value, j.sc, noRow{})
			if err != nil {
				j.fail(places[i], fmt.Errorf("parameter %q: %w", p.Name, err))
				j.sc.breaks(p.Name)
			} else if s, isText := p.Value.(string); isText {
				p.Spelled = j.chosen(s)
			}
			p.Value = v
		}
		if len(p.Spelled) == 0 {
			p.Spelled = nil
		}
		j.sc.param(p)
	}
}

// chosen returns the spelling that a default takes over from a parameter above it.
func (j *jobFile) chosen(s string) Spellings {
	t, err := j.ps.template(s, j.sc)
	if err != nil || len(t.parts) != 1 || t.parts[0].expr == nil {
		return nil
	}
	if text, ok := t.parts[0].expr.choice.spelling(j.sc, noRow{}); ok {
		return Spellings{"": text}
	}
	return nil
}

// elsewhere reports a problem that is not in the job file.
func (j *jobFile) elsewhere(file string, err error) {
	message, hint := splitHint(err)
	j.problems = append(j.problems, Problem{File: file, Message: message, Hint: hint})
}

func sameEnvironName(param, environ string) bool {
	return strings.EqualFold(strings.ReplaceAll(param, "-", "_"), environ)
}

func (j *jobFile) findParam(name string, same func(param, given string) bool) (int, error) {
	i := slices.IndexFunc(j.g.Params, func(p Param) bool { return same(p.Name, name) })
	if i >= 0 {
		return i, nil
	}
	names := make([]string, len(j.g.Params))
	for k := range names {
		names[k] = j.g.Params[k].Name
	}
	fallback := "the job has no parameters"
	if len(names) > 0 {
		fallback = "known are " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return 0, mistake(fmt.Sprintf("the job has no parameter %q", clip(name)), nearest(strings.ToLower(name), names, fallback))
}

// paramFile applies a parameter file. Its values have types of their own.
func (j *jobFile) paramFile(over Override, set []bool) {
	if over.Data == nil {
		return
	}
	l := newLoader(over.File, len(over.Data))
	defer func() { j.problems = append(j.problems, l.problems...) }()
	root := l.document(over.Data, j.opt.MaxBytes)
	if root == nil {
		return
	}
	for _, p := range l.pairs(root, "the parameter file") {
		i, err := j.findParam(p.key.Value, func(a, b string) bool { return a == b })
		if err != nil {
			l.fail(p.key, err)
			continue
		}
		spelled := Spellings{}
		v, ok := l.valueAt(p.val, 0, spelled, "")
		if !ok {
			j.sc.breaks(p.key.Value)
			continue
		}
		def := j.g.Params[i].Value
		if _, wantText := def.(string); wantText && p.val.Kind == yaml.ScalarNode && v != nil {
			v = p.val.Value // 20260101 for a date that is text by default
		}
		if v, err = convertParam(v, def); err != nil {
			l.fail(p.val, fmt.Errorf("parameter %q: %w", p.key.Value, err))
			j.sc.breaks(p.key.Value)
			continue
		}
		j.g.Params[i].Value, j.g.Params[i].Spelled, set[i] = v, spelled, true
	}
}

// paramText applies a value that came as text. source names where it came from.
func (j *jobFile) paramText(name, text, source string, same func(a, b string) bool, set []bool) {
	i, err := j.findParam(name, same)
	if err != nil {
		j.elsewhere(source, err)
		return
	}
	spelled := Spellings{}
	v, err := parseParam(text, j.g.Params[i].Value, spelled)
	if err != nil {
		j.elsewhere(source, err)
		j.sc.breaks(j.g.Params[i].Name)
		return
	}
	j.g.Params[i].Value, j.g.Params[i].Spelled, set[i] = v, spelled, true
}

// parseParam reads text as the type of the default, and notes how its numbers are spelled.
func parseParam(text string, def any, spelled Spellings) (any, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	wrong := func(form string) error {
		return mistake(fmt.Sprintf("%q is not a %s, as the job file's value is", clip(text), kindOf(def)), form)
	}
	switch def.(type) {
	case string:
		return text, nil
	case int64:
		i, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil, wrong("write digits, such as 4")
		}
		spelled.note("", i, strings.TrimSpace(text))
		return i, nil
	case float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err == nil {
			_, err = normalise(f, 0)
		}
		if err != nil {
			return nil, wrong("write a number, such as 0.5")
		}
		spelled.note("", f, strings.TrimSpace(text))
		return f, nil
	case bool:
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, wrong("write true or false")
	case nil:
		return anyParam(text, spelled)
	}
	v, ok := yamlParam(text, spelled)
	if !ok {
		return nil, wrong("write it as YAML, such as [a, b] or {x: 1}")
	}
	return convertParam(v, def)
}

// yamlParam reads text as YAML; false when it is none.
func yamlParam(text string, spelled Spellings) (v any, ok bool) {
	l := newLoader("", len(text))
	root := l.document([]byte(text), maxTextLen)
	ok = true
	if root != nil {
		v, ok = l.valueAt(root, 0, spelled, "")
	}
	return v, ok && len(l.problems) == 0
}

// anyParam reads text for a default of null. It is text, unless it is plainly a number, a list or a
// mapping in brackets, true, false or null: all else that YAML gives a meaning (#, &, :) is meant as it stands.
func anyParam(text string, spelled Spellings) (any, error) {
	trimmed := strings.TrimSpace(text)
	l := newLoader("", len(trimmed))
	root := l.document([]byte(trimmed), maxTextLen)
	if root == nil || len(l.problems) > 0 {
		return text, nil
	}
	plain := false
	switch root.Kind {
	case yaml.SequenceNode, yaml.MappingNode:
		plain = strings.HasPrefix(trimmed, "[") && strings.HasSuffix(trimmed, "]") || strings.HasPrefix(trimmed, "{") && strings.HasSuffix(trimmed, "}")
	case yaml.ScalarNode:
		tag := root.ShortTag()
		word := strings.EqualFold(trimmed, "true") || strings.EqualFold(trimmed, "false") || strings.EqualFold(trimmed, "null")
		plain = root.Style == 0 && root.Value == trimmed && (word || tag == "!!int" || tag == "!!float")
	}
	if !plain {
		return text, nil
	}
	v, ok := l.valueAt(root, 0, spelled, "")
	if !ok {
		p := l.problems[0]
		return nil, mistake(p.Message, `write a text as default in the job file, such as "", to keep it as text`)
	}
	if s, isText := v.(string); isText { // 007, 1_000
		return s, nil
	}
	return v, nil
}

// convertParam checks a typed value against the default's type. A null default takes any.
func convertParam(v, def any) (any, error) {
	if i, isInt := v.(int64); isInt {
		if _, wantFloat := def.(float64); wantFloat {
			return float64(i), nil
		}
	}
	if def == nil || kindOf(v) == kindOf(def) {
		return v, nil
	}
	return nil, mistake(fmt.Sprintf("%s is a %s, the job file's value is a %s", quoteValue(v), kindOf(v), kindOf(def)), "give a "+kindOf(def))
}
