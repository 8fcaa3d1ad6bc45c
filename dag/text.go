package dag

import (
	"fmt"
	"slices"
	"strings"
)

// Text prints the expanded graph for people and golden files: each task with
// what it runs, then each dependency, sorted. Instances of streamed groups
// appear once, with * as element.
func (g *Graph) Text() string {
	var nodes, edges []string
	ix := &g.index
	for n := range ix.tasks + ix.slots {
		i := TaskIndex(n) // of a slot the instance for element 0
		name := ix.nodeName(g, uint32(n))
		nodes = append(nodes, name+"  "+g.runText(i))
		if st := g.Group(i).Stream; st != nil {
			edges = append(edges, fmt.Sprintf("%s.%s[each] -> %s", g.TaskName(st.Generator), g.Group(st.Generator).Outputs[st.Output].Name, name))
		}
		inputs, err := g.Inputs(i)
		if err != nil {
			continue // not reached: n is a node
		}
		for _, in := range inputs {
			for _, s := range in.Sources {
				edges = append(edges, g.sourceText(s, i)+" -> "+name+"."+in.Name)
			}
		}
	}
	for i := range g.Exports {
		ex := &g.Exports[i]
		to := " -> output"
		if ex.Path != "" {
			to += " " + ex.Path
		}
		for _, s := range ex.Sources {
			edges = append(edges, g.sourceText(s, 0)+to)
		}
	}
	slices.Sort(nodes)
	slices.Sort(edges)
	return "job " + g.Name + "\n" + strings.Join(nodes, "\n") + "\n\n" + strings.Join(append(edges, ""), "\n")
}

func (g *Graph) runText(i TaskIndex) string {
	run := &g.Group(i).Run
	if f, ok := g.FileOf(i); ok {
		return "input " + quote(f.String())
	}
	if run.Function != "" {
		if run.Environment != "" {
			return run.Environment + ":" + run.Function
		}
		return run.Function
	}
	words, err := g.Command(i)
	if err != nil {
		return err.Error()
	}
	text := make([]string, len(words))
	for k, w := range words {
		text[k] = quote(w.String())
	}
	return strings.Join(text, " ")
}

// CommandLine returns the command of a task as a person writes it: the one text for the
// shell, or words in the quotes of a shell where they need them. Inputs and outputs are
// placeholders as in the job file. It is "" of a function.
func (g *Graph) CommandLine(i TaskIndex) (string, error) {
	words, err := g.Command(i)
	if err != nil || len(words) == 0 {
		return "", err
	}
	if isShell(words) {
		return words[2].plain(), nil
	}
	text := make([]string, len(words))
	for k, w := range words {
		if text[k] = w.plain(); text[k] == "" || strings.ContainsAny(text[k], " \t\n'\"\\|&;<>()*?[]#~`!") {
			text[k] = "'" + strings.ReplaceAll(text[k], "'", `'\''`) + "'"
		}
	}
	return strings.Join(text, " "), nil
}

// sourceText prints a source as seen by a consumer; element 0 of a slot is printed as *.
func (g *Graph) sourceText(s Source, consumer TaskIndex) string {
	node, _ := g.node(s.Task)
	text := g.index.nodeName(g, node) + "." + g.Group(s.Task).Outputs[s.Output].Name
	switch s.Kind {
	case SourceElement:
		if _, _, instance := g.Slot(consumer); instance {
			if st := g.Group(consumer).Stream; st.Generator == s.Task && st.Output == s.Output {
				return text + "[" + st.Var + "]"
			}
		}
		return fmt.Sprintf("%s[%d]", text, s.Element)
	case SourceStream:
		return text + "[*]"
	case SourceGroup:
		return text + " (all)"
	}
	return text
}
