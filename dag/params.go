package dag

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Override changes the parameters of a job file. What comes later wins: the
// job file's own value, Data, Environ, Flags.
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
			v, ok := j.value(p.val, 0)
			if !ok {
				continue
			}
			j.g.Params = append(j.g.Params, Param{p.key.Value, v})
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
			}
			p.Value = v
		}
		j.sc.params[p.Name] = p.Value
	}
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
		v, ok := l.value(p.val, 0)
		if !ok {
			continue
		}
		def := j.g.Params[i].Value
		if _, wantText := def.(string); wantText && p.val.Kind == yaml.ScalarNode && v != nil {
			v = p.val.Value // 20260101 for a date that is text by default
		}
		if v, err = convertParam(v, def); err != nil {
			l.fail(p.val, fmt.Errorf("parameter %q: %w", p.key.Value, err))
			continue
		}
		j.g.Params[i].Value, set[i] = v, true
	}
}

// paramText applies a value that came as text. source names where it came from.
func (j *jobFile) paramText(name, text, source string, same func(a, b string) bool, set []bool) {
	i, err := j.findParam(name, same)
	if err != nil {
		j.elsewhere(source, err)
		return
	}
	v, err := parseParam(text, j.g.Params[i].Value)
	if err != nil {
		j.elsewhere(source, err)
		return
	}
	j.g.Params[i].Value, set[i] = v, true
}

// parseParam reads text as the type of the default.
func parseParam(text string, def any) (any, error) {
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
		return i, nil
	case float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err == nil {
			_, err = normalise(f, 0)
		}
		if err != nil {
			return nil, wrong("write a number, such as 0.5")
		}
		return f, nil
	case bool:
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, wrong("write true or false")
	}
	l := newLoader("", len(text))
	root := l.document([]byte(text), maxTextLen)
	var v any
	ok := true
	if root != nil {
		v, ok = l.value(root, 0)
	}
	if len(l.problems) > 0 || !ok {
		return nil, wrong("write it as YAML, such as [a, b] or {x: 1}")
	}
	return convertParam(v, def)
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
