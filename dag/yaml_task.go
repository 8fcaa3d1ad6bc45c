package dag

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v4"
)

var taskKeys = []string{"for", "gang", "run", "command", "environment", "stdin", "stdout", "in", "out", "generates", "with", "env",
	"resources", "retries", "timeout", "priority", "keep_going", "deadline"}

// task reads one entry of tasks.
func (j *jobFile) task(p pair) {
	gi := len(j.g.Groups)
	j.g.Groups = append(j.g.Groups, Group{Name: p.key.Value})
	grp := &j.g.Groups[gi]
	var environment, gang *yaml.Node
	for _, k := range j.keyed(p.val, fmt.Sprintf("task %q", clip(grp.Name)), taskKeys) {
		what := fmt.Sprintf("task %q: %s", clip(grp.Name), k.key.Value)
		n := k.val
		switch k.key.Value {
		case "for":
			for _, v := range j.pairs(n, what) {
				j.loop(gi, v, what+" "+v.key.Value)
			}
		case "gang":
			gang = n
		case "run":
			j.runs(grp, n, what)
		case "command":
			j.command(grp, n, what)
		case "environment":
			environment = n
		case "stdin":
			grp.Run.Stdin = j.dataset(n, what, "in")
		case "stdout":
			grp.Run.Stdout = j.dataset(n, what, "out")
		case "in":
			for _, v := range j.pairs(n, what) {
				j.input(grp, v, what+" "+v.key.Value)
			}
		case "out":
			for _, item := range j.items(n, what) {
				if s, ok := j.raw(item, what); ok {
					grp.Outputs = append(grp.Outputs, OutputDecl{Name: s})
				}
			}
		case "generates":
			for _, v := range j.pairs(n, what) {
				j.generates(grp, v, what+" "+v.key.Value)
			}
		case "with":
			grp.With = j.fields(n, what)
		case "env":
			grp.Env = j.variables(n, what)
		default:
			j.setting(grp, k.key.Value, n, what)
		}
	}
	if grp.IsSession() && grp.Resources.CPU == 0 {
		grp.Resources.CPU = NoCPU // a file has no word for it
	}
	if gang != nil {
		j.gang(gi, gang, fmt.Sprintf("task %q: gang", clip(grp.Name)))
	}
	if environment != nil {
		if grp.Run.Environment != "" {
			j.problem(environment, fmt.Sprintf("task %q names its environment twice", clip(grp.Name)), "keep run: ENVIRONMENT:FUNCTION")
		} else {
			grp.Run.Environment, _ = j.raw(environment, "environment")
		}
	}
}

// setting reads the keys that are plain numbers.
func (j *jobFile) setting(grp *Group, key string, n *yaml.Node, what string) {
	switch key {
	case "resources":
		j.resources(grp, n, what)
	case "retries":
		grp.Retries = int(j.whole(n, what, 0, maxRetries))
	case "priority":
		grp.Priority = int(j.whole(n, what, -maxPriority, maxPriority))
	case "timeout":
		grp.Timeout = j.duration(n, what)
	case "deadline":
		grp.Deadline = j.duration(n, what)
	case "keep_going":
		grp.KeepGoing = j.truth(n, what)
	}
}

// duration reads a duration above 0; 0 when it is none.
func (j *jobFile) duration(n *yaml.Node, what string) time.Duration {
	s, ok := j.text(n, what)
	if !ok {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil || d <= 0 {
		j.problem(n, fmt.Sprintf("%s is %q, not a duration", what, clip(s)), "write a number with its unit: 90s, 5m, 1h30m, 2d")
		return 0
	}
	return d
}

// loop reads one variable of for.
func (j *jobFile) loop(gi int, v pair, what string) {
	grp := &j.g.Groups[gi]
	axis := Axis{Var: v.key.Value}
	if v.val.Kind == yaml.SequenceNode {
		axis.Values = []any{}
		for _, item := range j.items(v.val, what) {
			if x, ok := j.scalar(item, what); ok {
				axis.Values = append(axis.Values, x)
			}
		}
		grp.Axes = append(grp.Axes, axis)
		return
	}
	s, ok := j.raw(v.val, what)
	if !ok {
		return
	}
	s = strings.TrimSpace(s)
	switch {
	case strings.HasSuffix(s, "[*]"):
		j.pending = append(j.pending, pendingAxis{group: gi, axis: len(grp.Axes), from: From{Text: s, Line: v.val.Line, Col: v.val.Column}})
	case strings.Contains(s, ".."):
		first, n, err := j.rangeOf(s)
		if err != nil {
			j.fail(v.val, fmt.Errorf("%s: %w", what, err))
		}
		axis.First, axis.N = first, n
	case hasPlaceholder(s):
		x, ok := j.resolved(v.val, s, what)
		list, isList := x.([]any)
		if ok && !isList {
			j.problem(v.val, fmt.Sprintf("%s is %s, not a list", what, quoteValue(x)), "for a count write 0..${params.n}-1")
		}
		axis.Values = append([]any{}, list...)
	default:
		j.problem(v.val, fmt.Sprintf("%s is %q, not something to loop over", what, clip(s)), "write a range 0..9, a list [a, b], ${params.LIST}, or TASK.OUTPUT[*] of a generator")
	}
	grp.Axes = append(grp.Axes, axis)
}

// rangeOf reads "first..last"; both sides are expressions, in which ${...} stands for a bracketed part.
func (j *jobFile) rangeOf(s string) (first, n int64, err error) {
	segs, err := segments(s)
	if err != nil {
		return 0, 0, err
	}
	var b strings.Builder
	for _, sg := range segs {
		if sg.expr {
			b.WriteString("(" + sg.text + ")")
		} else {
			b.WriteString(sg.text)
		}
	}
	const form = "write FIRST..LAST, both inclusive, such as 0..9 or 0..${params.n}-1"
	left, right, _ := strings.Cut(b.String(), "..")
	var ends [2]int64
	for i, side := range []string{left, right} {
		if strings.TrimSpace(side) == "" {
			return 0, 0, mistake(fmt.Sprintf("range %q has no %s", clip(s), []string{"first", "last"}[i]), form)
		}
		e, err := j.ps.compile(side, j.sc)
		if err != nil {
			return 0, 0, fmt.Errorf("range %q: %w", clip(s), err)
		}
		var ok bool
		if ends[i], ok = wholeNumber(e.konst); !ok {
			return 0, 0, mistake(fmt.Sprintf("range %q: %s is %s, not a whole number", clip(s), strings.TrimSpace(side), quoteValue(e.konst)), form)
		}
	}
	first, last := ends[0], ends[1]
	if last < first && last+1 != first {
		return first, 0, mistake(fmt.Sprintf("range %q goes down from %d to %d", clip(s), first, last), form)
	}
	if uint64(last)-uint64(first) >= math.MaxInt32 && last >= first {
		return first, 0, mistake(fmt.Sprintf("range %q has more than %d values", clip(s), math.MaxInt32), "loop over fewer values")
	}
	return first, last - first + 1, nil
}

// runs reads "FUNCTION" or "ENVIRONMENT:FUNCTION".
func (j *jobFile) runs(grp *Group, n *yaml.Node, what string) {
	s, ok := j.text(n, what)
	if !ok {
		return
	}
	if env, fn, found := strings.Cut(s, ":"); found {
		grp.Run.Environment, grp.Run.Function = env, fn
		if env == "" || fn == "" {
			j.problem(n, fmt.Sprintf("%s is %q", what, clip(s)), "write FUNCTION or ENVIRONMENT:FUNCTION")
		}
		return
	}
	grp.Run.Function = s
	if s == "" {
		j.problem(n, what+" is empty", "write FUNCTION or ENVIRONMENT:FUNCTION")
	}
}

// command reads a list of words, or one text for the shell.
func (j *jobFile) command(grp *Group, n *yaml.Node, what string) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range j.items(n, what) {
			if s, ok := j.raw(item, what); ok {
				j.word(grp, item, s, what)
			}
		}
		if len(n.Content) == 0 {
			j.problem(n, what+" is empty", "write [PROGRAM, WORD, ...]")
		}
		return
	}
	s, ok := j.raw(n, what)
	if !ok {
		return
	}
	if strings.TrimSpace(s) == "" {
		j.problem(n, what+" is empty", "write [PROGRAM, WORD, ...] or a line for the shell")
		return
	}
	grp.Run.Command = append(grp.Run.Command, shellWords()...)
	j.word(grp, n, s, what)
}

// shellWords start a command that was written as one text.
func shellWords() []Arg {
	return []Arg{{{Kind: ArgText, Text: "/bin/sh"}}, {{Kind: ArgText, Text: "-c"}}}
}

func (j *jobFile) word(grp *Group, n *yaml.Node, s, what string) {
	a, err := parseArg(s)
	if err != nil {
		j.fail(n, fmt.Errorf("%s: %w", what, err))
	}
	grp.Run.Command = append(grp.Run.Command, a)
}

// dataset reads the name of an input or output, bare or as ${in.NAME}.
func (j *jobFile) dataset(n *yaml.Node, what, side string) string {
	s, ok := j.raw(n, what)
	if !ok {
		return ""
	}
	if inner, found := strings.CutPrefix(s, "${"+side+"."); found {
		s = strings.TrimSuffix(inner, "}")
	}
	if s == "" {
		j.problem(n, what+" is empty", "write the name of an "+side+"put")
	}
	return s
}

// input reads one entry of in: a reference, a list of them, or {from: ..., min: ...}.
func (j *jobFile) input(grp *Group, v pair, what string) {
	d := InputDecl{Name: v.key.Value}
	from := v.val
	if from.Kind == yaml.MappingNode {
		body := from
		from = nil
		for _, k := range j.keyed(body, what, []string{"from", "min"}) {
			switch k.key.Value {
			case "from":
				from = k.val
			case "min":
				d.Min = int(j.whole(k.val, what+": min", 0, math.MaxInt32))
			}
		}
		if from == nil {
			j.problem(body, what+" has no from", "write {from: TASK[*].OUTPUT, min: 45}")
			return
		}
	}
	if from.Kind == yaml.SequenceNode {
		d.List = true
		for _, item := range j.items(from, what) {
			if f, ok := j.from(item, what); ok {
				d.From = append(d.From, f)
			}
		}
	} else if f, ok := j.from(from, what); ok {
		d.From = []From{f}
	} else {
		return
	}
	grp.Inputs = append(grp.Inputs, d)
}

// generates reads one entry of generates: a count, "*", or {count: ..., buffer: ...}.
func (j *jobFile) generates(grp *Group, v pair, what string) {
	o := OutputDecl{Name: v.key.Value, Generate: GenerateOpen}
	count := v.val
	if count.Kind == yaml.MappingNode {
		body := count
		count = nil
		for _, k := range j.keyed(body, what, []string{"count", "buffer"}) {
			switch k.key.Value {
			case "count":
				count = k.val
			case "buffer":
				o.Buffer = int(j.whole(k.val, what+": buffer", 1, math.MaxInt32))
			}
		}
		if count == nil {
			j.problem(body, what+" has no count", `write {count: 4, buffer: 8}, or count: "*" when it is not known before`)
			return
		}
	}
	x, ok := j.scalar(count, what)
	switch n, whole := wholeNumber(x); {
	case !ok:
	case x == "*":
	case whole && n >= 0:
		o.Generate, o.Count = GenerateFixed, uint64(n)
	default:
		j.problem(count, fmt.Sprintf("%s is %s", what, quoteValue(x)), `write how many elements, or "*" when it is not known before`)
	}
	grp.Outputs = append(grp.Outputs, o)
}

// fields reads named values in file order, placeholders kept.
func (j *jobFile) fields(n *yaml.Node, what string) []Field {
	var out []Field
	for _, v := range j.pairs(n, what) {
		if x, ok := j.value(v.val); ok {
			out = append(out, Field{Name: v.key.Value, Value: x})
		}
	}
	return out
}

// variables reads named texts in file order, as they are written, placeholders kept.
func (j *jobFile) variables(n *yaml.Node, what string) []Field {
	var out []Field
	for _, v := range j.pairs(n, what) {
		if s, ok := j.raw(v.val, what+" "+v.key.Value); ok {
			out = append(out, Field{Name: v.key.Value, Value: s})
		}
	}
	return out
}

func (j *jobFile) resources(grp *Group, n *yaml.Node, what string) {
	var bound *yaml.Node
	for _, k := range j.pairs(n, what) {
		name := k.key.Value
		w := what + " " + name
		if name == "memory" {
			grp.Resources.Memory = j.memory(k.val, w)
			continue
		}
		if name == memoryMax {
			bound, grp.Resources.MemoryMax = k.val, j.memory(k.val, w)
			continue
		}
		if name == gpuMemory {
			grp.Resources.GPUMemory = j.memory(k.val, w)
			continue
		}
		amount, ok := j.thousandths(k.val, w, MeantResource(name))
		if !ok {
			continue
		}
		switch name {
		case "cpu":
			if amount == 0 {
				j.problem(k.val, w+" is 0", "leave it out for one core, or write a fraction such as 0.1")
			}
			grp.Resources.CPU = amount
		case "gpu":
			grp.Resources.GPU = amount
		default:
			if grp.Resources.Custom == nil {
				grp.Resources.Custom = map[string]int64{}
			}
			grp.Resources.Custom[name] = amount
		}
	}
	if r := &grp.Resources; r.MemoryMax > 0 && (r.Memory == 0 || r.MemoryMax < r.Memory) {
		j.problem(bound, what+" memory_max is less than memory, or without it", "write both, as in {memory: 1GiB, memory_max: 4GiB}")
		r.MemoryMax = 0
	}
}

// otherNames is what others call the resources that are known here.
var otherNames = map[string]string{"cpus": "cpu", "core": "cpu", "cores": "cpu", "mem": "memory", "ram": "memory",
	"gpus": "gpu", "gpu_mem": gpuMemory, "gpumem": gpuMemory, "vram": gpuMemory, "max_memory": memoryMax}

// MeantResource is the hint for a resource of the user's own that may be meant for
// another: `did you mean "memory"?` for mem, "" when none is.
func MeantResource(name string) string {
	if meant := otherNames[name]; meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return nearest(name, []string{"memory", memoryMax, gpuMemory}, "")
}

// thousandths reads an amount with up to three decimals. The hint of what is no number
// may be another than the usual one.
func (j *jobFile) thousandths(n *yaml.Node, what, hint string) (int64, bool) {
	v, ok := j.scalar(n, what)
	if !ok {
		return 0, false
	}
	f, isFloat := v.(float64)
	if i, isInt := v.(int64); isInt {
		f, isFloat = float64(i), true
	}
	if !isFloat || f < 0 || f > 1e9 {
		j.problem(n, fmt.Sprintf("%s is %s", what, quoteValue(v)), cmp.Or(hint, "write a number from 0, fractions allowed: 0.5"))
		return 0, false
	}
	m := math.Round(f * 1000)
	if math.Abs(m-f*1000) > 1e-6+m*1e-15 {
		j.problem(n, fmt.Sprintf("%s is %s", what, quoteValue(v)), "at most three decimals")
		return 0, false
	}
	return int64(m), true
}

// leastPlain is the least memory that is meant when bytes have no unit: who writes
// 64 means MiB, and would have every attempt ended.
const leastPlain = 1 << 20

// memory reads bytes: a whole number, or text with a unit. Units with an i are
// powers of 1024 (MiB), the others powers of 1000 (MB).
func (j *jobFile) memory(n *yaml.Node, what string) int64 {
	v, ok := j.scalar(n, what)
	if !ok {
		return 0
	}
	const hint = "write bytes with a unit: 64MiB, 1.5GiB, 500MB"
	switch x := v.(type) {
	case int64:
		if x >= leastPlain {
			return x
		}
		if x > 0 {
			j.plainMemory(n, what, strconv.FormatInt(x, 10))
			return 0
		}
	case string:
		parse := units.FromHumanSize
		if strings.ContainsAny(x, "iI") {
			parse = units.RAMInBytes
		}
		text := strings.TrimSpace(x)
		if b, err := parse(text); err == nil && b > 0 {
			if b < leastPlain && strings.Trim(text, "0123456789.") == "" {
				j.plainMemory(n, what, text)
				return 0
			}
			return b
		}
	}
	j.problem(n, fmt.Sprintf("%s is %s, not an amount of memory", what, quoteValue(v)), hint)
	return 0
}

// plainMemory tells that a small amount has no unit.
func (j *jobFile) plainMemory(n *yaml.Node, what, amount string) {
	j.problem(n, fmt.Sprintf("%s is %s bytes, less than 1MiB", what, amount), fmt.Sprintf("write %sMiB, or %sB for bytes", amount, amount))
}
