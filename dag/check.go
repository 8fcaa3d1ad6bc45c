package dag

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxRetries  = 60_000
	maxPriority = 1_000_000_000
	maxAmount   = 1_000_000_000_000 // thousandths of a resource
	maxWords    = 1_000_000         // words of one command
	maxCount    = 1 << 53           // elements of a generator: whole numbers that a float64 holds
	maxText     = 1 << 20           // bytes of one text
)

// job checks what stands beside the tasks.
func (r *resolver) job() {
	g := r.g
	if err := checkJobName(g.Name); err != nil {
		r.report(-1, "job", "", err)
	}
	seen := map[string]bool{}
	for i := range g.Params {
		p := &g.Params[i]
		err := checkVariable("a parameter", p.Name)
		if err == nil && seen[p.Name] {
			err = mistake(fmt.Sprintf("parameter %q is declared twice", p.Name), "remove one of them")
		}
		if err == nil {
			err = checkValue(p.Value, 0)
		}
		if err != nil {
			r.report(-1, "params", p.Name, err)
		}
		seen[p.Name] = true
	}
	seen = map[string]bool{}
	for i := range g.Environments {
		e := &g.Environments[i]
		var err error
		if e.Name != ProgramEnvironment {
			err = checkName("an environment", e.Name)
		}
		if err == nil && seen[e.Name] {
			err = mistake(fmt.Sprintf("environment %q is declared twice", e.Name), "give one of them another name")
		}
		if err == nil {
			if err = checkEnvironment(e); err != nil {
				err = fmt.Errorf("environment %q: %w", e.Name, err)
			}
		}
		if err != nil {
			r.report(-1, "environments", e.Name, err)
		}
		seen[e.Name] = true
	}
}

func checkJobName(name string) error {
	if name == "" {
		return mistake("the job has no name", "add job: NAME")
	}
	if len(name) > maxNameLen || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return mistake(fmt.Sprintf("%q cannot be the name of a job", clip(name)), fmt.Sprintf("one line of text, at most %d bytes", maxNameLen))
	}
	return nil
}

// checkVarName checks the name of an environment variable.
func checkVarName(name string) error {
	if name == "" || strings.ContainsAny(name, "= ") || checkKey(name) != nil {
		return mistake(fmt.Sprintf("%q cannot be the name of an environment variable", clip(name)), "a name without = and spaces, at most 200 bytes")
	}
	return nil
}

// checkText refuses what cannot be passed to a program or printed in a file.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return mistake(fmt.Sprintf("the text %q is not UTF-8 without zero bytes", clip(s)), "pass binary data as a dataset")
	}
	if len(s) > maxText {
		return mistake(fmt.Sprintf("a text of %d bytes: at most %d are allowed", len(s), maxText), "pass large data as a dataset")
	}
	return nil
}

// checkKey checks a key of a mapping.
func checkKey(key string) error {
	if len(key) > maxNameLen || !utf8.ValidString(key) || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return mistake(fmt.Sprintf("%q cannot be a key", clip(key)), "one line of printable text, at most 200 bytes")
	}
	return nil
}

// checkValue checks a parameter against the kinds of Param.Value.
func checkValue(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("value nested deeper than %d", maxDepth)
	}
	switch x := v.(type) {
	case nil, bool, int64:
		return nil
	case float64:
		_, err := normalise(x, 0)
		return err
	case string:
		return checkText(x)
	case []any:
		for _, e := range x {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, k := range keysOf(x) {
			e := x[k]
			if err := checkKey(k); err != nil {
				return err
			}
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return mistake(fmt.Sprintf("a value of type %T cannot be part of a job", v), "use nil, bool, int64, float64, string, []any or map[string]any")
}

// group checks one group apart from its references.
func (r *resolver) group(gi int) {
	grp := &r.g.Groups[gi]
	r.inputs(gi, grp)
	r.outputs(gi, grp)
	r.run(gi, grp)
	r.fields(gi, "with", grp.With)
	r.fields(gi, "env", grp.Env)
	r.limits(gi, grp)
	r.gang(gi, grp)
	r.bindTexts(gi, grp)
}

func (r *resolver) inputs(gi int, grp *Group) {
	for i := range grp.Inputs {
		d := &grp.Inputs[i]
		if err := checkName("an input", d.Name); err != nil {
			r.report(gi, "in", d.Name, err)
			continue
		}
		for j := range i {
			if grp.Inputs[j].Name == d.Name {
				r.report(gi, "in", d.Name, mistake(fmt.Sprintf("input %q is declared twice", d.Name), "give one of them another name"))
				break
			}
		}
		if len(d.From) == 0 && !d.List {
			r.report(gi, "in", d.Name, mistake(fmt.Sprintf("input %q has no source", d.Name), "write TASK.OUTPUT"))
		}
		if d.Min < 0 || d.Min > 0 && !d.List {
			r.report(gi, "in", d.Name, mistake(fmt.Sprintf("input %q: min %d", d.Name, d.Min), "min is for lists: how many of the datasets are enough"))
		}
	}
}

func (r *resolver) outputs(gi int, grp *Group) {
	generated := false
	for i := range grp.Outputs {
		o := &grp.Outputs[i]
		key := "out"
		if o.Generate != GenerateNone {
			key, generated = "generates", true
		}
		if err := checkName("an output", o.Name); err != nil {
			r.report(gi, key, o.Name, err)
			continue
		}
		for j := range i {
			if grp.Outputs[j].Name == o.Name {
				r.report(gi, key, o.Name, mistake(fmt.Sprintf("output %q is declared twice", o.Name), "give one of them another name"))
				break
			}
		}
		switch {
		case o.Generate > GenerateOpen:
			r.report(gi, key, o.Name, fmt.Errorf("output %q is of an unknown kind", o.Name))
		case o.Generate == GenerateNone && generated:
			r.report(gi, key, o.Name, fmt.Errorf("output %q comes after a generated one", o.Name))
		case o.Generate != GenerateFixed && o.Count != 0, o.Generate == GenerateNone && o.Buffer != 0:
			r.report(gi, key, o.Name, fmt.Errorf("output %q has a count or buffer that it cannot use", o.Name))
		case o.Count > maxCount:
			r.report(gi, key, o.Name, mistake(fmt.Sprintf("output %q has %d elements", o.Name, o.Count), fmt.Sprintf(`at most %d; write "*" when the count is not known`, uint64(maxCount))))
		case o.Buffer < 0:
			r.report(gi, key, o.Name, mistake(fmt.Sprintf("output %q: buffer %d", o.Name, o.Buffer), "a number of elements from 1; leave it out for the default"))
		case o.Generate == GenerateOpen && grp.Stream != nil:
			r.report(gi, key, o.Name, nestedStream(grp.Name))
		case o.Generate != GenerateNone && grp.Run.Command != nil:
			r.report(gi, key, o.Name, mistake(fmt.Sprintf("output %q: a command cannot publish a series", o.Name), "use a function, or loop over several runs of the command"))
		}
	}
}

// run checks the function or command.
func (r *resolver) run(gi int, grp *Group) {
	run := &grp.Run
	switch {
	case run.Function == "" && len(run.Command) == 0:
		r.report(gi, "", "", mistake("it has nothing to run", "add run: FUNCTION, run: ENVIRONMENT:FUNCTION or command: [...]"))
	case run.Function != "" && len(run.Command) > 0:
		r.report(gi, "command", "", mistake("it has both run and command", "keep one of them"))
	}
	if run.Environment != "" {
		names := make([]string, len(r.g.Environments))
		known := false
		for i := range r.g.Environments {
			names[i] = r.g.Environments[i].Name
			known = known || names[i] == run.Environment
		}
		if !known {
			key := "run"
			if run.Function == "" {
				key = "environment"
			}
			r.report(gi, key, "", mistake(fmt.Sprintf("there is no environment %q", clip(run.Environment)), nearest(run.Environment, names, "declare it under environments")))
		}
	}
	if run.Function != "" {
		r.function(gi, grp)
		return
	}
	r.command(gi, grp)
}

func (r *resolver) function(gi int, grp *Group) {
	if len(grp.Run.Function) > maxNameLen || !utf8.ValidString(grp.Run.Function) || strings.ContainsFunc(grp.Run.Function, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == ':' || c == '$' }) {
		r.report(gi, "run", "", mistake(fmt.Sprintf("%q cannot be the name of a function", clip(grp.Run.Function)), "write FUNCTION or ENVIRONMENT:FUNCTION; programs go under command"))
	}
	if grp.Run.Stdin != "" || grp.Run.Stdout != "" {
		key := "stdin"
		if grp.Run.Stdin == "" {
			key = "stdout"
		}
		r.report(gi, key, "", mistake(key+" is for commands", "a function reads its inputs and returns its outputs"))
	}
	if len(grp.Env) > 0 {
		r.report(gi, "env", "", mistake("env is for commands: functions share a process", "set env in the function's environment, or pass the value in with"))
	}
}

// command checks the words of a command line and the files they name.
func (r *resolver) command(gi int, grp *Group) {
	if len(grp.With) > 0 {
		r.report(gi, "with", "", mistake("with is for functions", "put ${...} into the command's words, or use env"))
	}
	if len(grp.Run.Command) > maxWords {
		r.report(gi, "command", "", fmt.Errorf("%d words: at most %d are allowed", len(grp.Run.Command), maxWords))
		return
	}
	inputs := make(map[string]*InputDecl, len(grp.Inputs))
	var inNames, outNames []string
	for i := range grp.Inputs {
		inputs[grp.Inputs[i].Name] = &grp.Inputs[i]
		inNames = append(inNames, grp.Inputs[i].Name)
	}
	written := make(map[string]bool, len(grp.Outputs))
	for i := range grp.Outputs {
		written[grp.Outputs[i].Name] = false
		outNames = append(outNames, grp.Outputs[i].Name)
	}
	for wi, word := range grp.Run.Command {
		if err := checkArg(word); err != nil {
			r.reportItem(gi, "command", "", wi, err)
			continue
		}
		for _, p := range word {
			if err := checkArgPart(p, inputs, written, inNames, outNames); err != nil {
				r.reportItem(gi, "command", "", wi, err)
			}
		}
	}
	if s := grp.Run.Stdin; s != "" {
		if d := inputs[s]; d == nil {
			r.report(gi, "stdin", "", mistake(fmt.Sprintf("stdin: there is no input %q", clip(s)), nearest(s, inNames, "declare it under in")))
		} else if d.List {
			r.report(gi, "stdin", "", mistake(fmt.Sprintf("stdin: input %q is a list", s), "concatenate in the command: cat ${in."+s+"[*]}"))
		}
	}
	if s := grp.Run.Stdout; s != "" {
		if _, ok := written[s]; !ok {
			r.report(gi, "stdout", "", mistake(fmt.Sprintf("stdout: there is no output %q", clip(s)), nearest(s, outNames, "declare it under out")))
		}
		written[s] = true
	}
	for i := range grp.Outputs {
		if o := &grp.Outputs[i]; !written[o.Name] && o.Generate == GenerateNone && len(grp.Run.Command) > 0 {
			r.report(gi, "out", o.Name, mistake(fmt.Sprintf("the command never writes output %q", o.Name), "put ${out."+o.Name+"} into its words, or add stdout: "+o.Name))
		}
	}
}

// checkArg refuses words that a job file cannot express, such as a $ before a placeholder.
func checkArg(word Arg) error {
	if len(word) == 1 && word[0].Kind == ArgText {
		return nil
	}
	again, err := parseArg(word.String())
	if err == nil && !slices.Equal(again, word) {
		err = mistake(fmt.Sprintf("the word %q reads as another one", clip(word.String())), "no $ before a placeholder, no empty or divided text")
	}
	return err
}

func checkArgPart(p ArgPart, inputs map[string]*InputDecl, written map[string]bool, inNames, outNames []string) error {
	if err := checkText(p.Text); err != nil {
		return err
	}
	switch p.Kind {
	case ArgText, ArgExpr: // expressions are compiled by bindTexts
		return nil
	case ArgInput, ArgInputs, ArgInputsFile:
		d := inputs[p.Text]
		switch {
		case d == nil:
			return mistake(fmt.Sprintf("the command uses input %q, which is not declared", clip(p.Text)), nearest(p.Text, inNames, "declare it under in"))
		case p.Kind == ArgInput && d.List:
			return mistake(fmt.Sprintf("input %q is a list", p.Text), "write ${in."+p.Text+"[*]}")
		case p.Kind != ArgInput && !d.List:
			return mistake(fmt.Sprintf("input %q is a single dataset", p.Text), "write ${in."+p.Text+"}")
		}
		return nil
	case ArgOutput:
		if _, ok := written[p.Text]; !ok {
			return mistake(fmt.Sprintf("the command uses output %q, which is not declared", clip(p.Text)), nearest(p.Text, outNames, "declare it under out"))
		}
		written[p.Text] = true
		return nil
	}
	return fmt.Errorf("the command has a part of unknown kind %d", p.Kind)
}

// fields checks named values.
func (r *resolver) fields(gi int, key string, fs []Field) {
	seen := make(map[string]bool, len(fs))
	for i := range fs {
		f := &fs[i]
		var err error
		if key == "env" {
			err = checkVarName(f.Name)
		} else {
			err = checkName("a field of with", f.Name)
		}
		if err == nil && seen[f.Name] {
			err = mistake(fmt.Sprintf("%q is there twice", f.Name), "remove one of them")
		}
		if err == nil {
			err = checkValue(f.Value, 0)
		}
		if err == nil && key == "env" {
			_, err = valueText(f.Value)
		}
		if err != nil {
			r.report(gi, key, f.Name, fmt.Errorf("%s: %w", key, err))
		}
		seen[f.Name] = true
	}
}

// limits checks numbers.
func (r *resolver) limits(gi int, grp *Group) {
	res := &grp.Resources
	if res.CPU < 0 && res.CPU != NoCPU || res.Memory < 0 || res.GPU < 0 || max(res.CPU, res.GPU) > maxAmount {
		r.report(gi, "resources", "", fmt.Errorf("a resource is negative or above %d", maxAmount/1000))
	}
	if res.MemoryMax < 0 || res.MemoryMax > 0 && (res.Memory == 0 || res.MemoryMax < res.Memory) {
		r.report(gi, "resources", "", fmt.Errorf("memory_max %d is less than memory %d, or without it", res.MemoryMax, res.Memory))
	}
	if err := checkDevices(res); err != nil {
		r.report(gi, "resources", "gpu", err)
	}
	if err := checkDeviceMemory(res); err != nil {
		r.report(gi, "resources", gpuMemory, err)
	}
	for _, name := range sortedKeys(res.Custom) {
		n := res.Custom[name]
		if err := checkName("a resource", name); err != nil {
			r.report(gi, "resources", name, err)
		} else if n < 0 || n > maxAmount || name == "cpu" || name == "memory" || name == memoryMax || name == "gpu" || name == gpuMemory {
			r.report(gi, "resources", name, fmt.Errorf("resource %q cannot be %d thousandths", name, n))
		}
	}
	if grp.Retries < 0 || grp.Retries > maxRetries {
		r.report(gi, "retries", "", fmt.Errorf("retries %d is not between 0 and %d", grp.Retries, maxRetries))
	}
	if grp.Timeout < 0 {
		r.report(gi, "timeout", "", fmt.Errorf("timeout %s is negative", grp.Timeout))
	}
	if grp.Deadline < 0 {
		r.report(gi, "deadline", "", fmt.Errorf("deadline %s is negative", grp.Deadline))
	}
	if grp.Priority < -maxPriority || grp.Priority > maxPriority {
		r.report(gi, "priority", "", fmt.Errorf("priority %d is not between -%d and %d", grp.Priority, maxPriority, maxPriority))
	}
}
