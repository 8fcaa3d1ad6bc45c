package dag

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

var jobKeys = []string{"job", "params", "environments", "inputs", "tasks", "outputs", "keep_going", "retain", "rebuilt"}

// jobFile is a job file on its way to a Graph.
type jobFile struct {
	*loader
	opt     Options
	g       *Graph
	root    *yaml.Node
	tasks   []pair // name and body of each group, inputs first
	pending []pendingAxis
}

// ParseYAML reads a job file. file is its name for messages, over changes its
// parameters; neither files nor the process's environment are read here (Options.Find
// looks for those of inputs). The
// error is of type Problems: all mistakes, sorted by place. docs/job-file.md is
// the reference of the format.
func ParseYAML(file string, data []byte, over Override, opt Options) (*Graph, error) {
	j := &jobFile{loader: newLoader(file, len(data)), opt: opt.withDefaults(), g: &Graph{}}
	j.root = j.document(data, j.opt.MaxBytes)
	if j.root == nil && len(j.problems) > 0 {
		return nil, sortProblems(j.problems)
	}
	if j.root == nil || j.root.ShortTag() == "!!null" {
		j.add(1, 1, "the file is empty", "a job file has job: NAME and tasks:")
		return nil, sortProblems(j.problems)
	}
	top := map[string]*yaml.Node{}
	for _, p := range j.keyed(j.root, "the job", jobKeys) {
		top[p.key.Value] = p.val
	}
	j.params(top["params"], over)
	if n := top["job"]; n != nil {
		if s, ok := j.text(n, "job"); ok {
			j.g.Name = s
		}
	}
	if n := top["keep_going"]; n != nil {
		j.g.KeepGoing = j.truth(n, "keep_going")
	}
	if n := top["retain"]; n != nil {
		j.g.Retain = j.truth(n, "retain")
	}
	if n := top["rebuilt"]; n != nil {
		j.rebuilt(n)
	}
	if n := top["environments"]; n != nil {
		for _, p := range j.pairs(n, "environments") {
			j.environment(p)
		}
	}
	if n := top["inputs"]; n != nil {
		j.inputs(n)
	}
	if n := top["tasks"]; n != nil {
		tasks := j.pairs(n, "tasks")
		j.tasks, j.g.Groups = slices.Grow(j.tasks, len(tasks)), slices.Grow(j.g.Groups, len(tasks))
		for _, p := range tasks {
			j.tasks = append(j.tasks, p)
			j.task(p)
		}
	}
	if n := top["outputs"]; n != nil {
		j.outputs(n)
	}
	for i := range j.g.Groups {
		j.g.Groups[i].canonical()
	}
	if j.visits <= 0 {
		return nil, sortProblems(j.problems) // what follows would only report what was not read
	}
	for _, is := range j.g.resolve(j.opt, j.pending, j.sc.broken) {
		if is.group < 0 && is.key == "job" && top["job"] != nil && j.g.Name == "" && len(j.problems) > 0 {
			continue // its text could not be read, which was reported
		}
		line, col := j.place(&is)
		j.add(line, col, is.message, is.hint)
	}
	if len(j.problems) > 0 {
		return nil, sortProblems(j.problems)
	}
	return j.g, nil
}

func (j *jobFile) outputs(n *yaml.Node) {
	for _, item := range j.items(n, "outputs") {
		var ex Export
		if item.Kind == yaml.MappingNode {
			for _, k := range j.keyed(item, "an output", []string{"from", "to"}) {
				switch k.key.Value {
				case "from":
					ex.From, _ = j.from(k.val, "from")
				case "to":
					ex.Path, _ = j.text(k.val, "to")
					if ex.Path == "" {
						j.problem(k.val, "the path of an output is empty", "write a file, or a folder with / at its end; or leave out to")
					}
				}
			}
			if ex.From.Text == "" {
				j.problem(item, "an output without from", "write {from: TASK.OUTPUT, to: PATH}")
				continue
			}
		} else {
			var ok bool
			if ex.From, ok = j.from(item, "an output"); !ok {
				continue
			}
		}
		j.g.Exports = append(j.g.Exports, ex)
	}
}

// from reads a reference and remembers its place.
func (j *jobFile) from(n *yaml.Node, what string) (From, bool) {
	s, ok := j.raw(n, what)
	if !ok {
		return From{}, false
	}
	return From{Text: strings.TrimSpace(s), Line: n.Line, Col: n.Column}, true
}

// place finds where an issue was written: the most exact node there is.
func (j *jobFile) place(is *issue) (line, col int) {
	if is.from.Line > 0 {
		return is.from.Line, is.from.Col
	}
	at, body := j.root, j.root
	if is.group >= 0 {
		at, body = j.tasks[is.group].key, j.tasks[is.group].val
	}
	for _, word := range []string{is.key, is.sub} {
		key, val := child(body, word)
		if key == nil {
			if word == is.sub && word != "" && body.Kind == yaml.SequenceNode {
				at = itemNamed(body, word, at)
			}
			break
		}
		at, body = key, val
	}
	if body.Kind == yaml.SequenceNode && is.item > 0 && is.item < len(body.Content) {
		at = body.Content[is.item]
	}
	return at.Line, at.Column
}

// child finds a key of a mapping, also one that came by merge.
func child(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n.Kind != yaml.MappingNode || key == "" {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			v = n.Content[i+1]
			for v.Kind == yaml.AliasNode {
				v = v.Alias
			}
			return n.Content[i], v
		}
	}
	return nil, nil
}

func itemNamed(n *yaml.Node, name string, fallback *yaml.Node) *yaml.Node {
	i := slices.IndexFunc(n.Content, func(c *yaml.Node) bool { return c.Value == name })
	if i < 0 {
		return fallback
	}
	return n.Content[i]
}
