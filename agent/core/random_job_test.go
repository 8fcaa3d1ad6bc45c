package core

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// madeGroup is a group of a random job, as later groups may refer to it.
type madeGroup struct {
	name   string
	axis   int    // tasks over an axis; 0: a single task
	index  string // the axis' variable: "rank" for a gang
	stream string // generator that it follows
	gen    int    // 0: no generator, -1: open, else the count
}

// jobMaker writes a job file: groups of which some are over axes, some generate,
// some follow a stream, and that read from earlier ones, with and without min.
type jobMaker struct {
	t    *rapid.T
	text strings.Builder
	all  []madeGroup
	// gangs: some families are gangs, which who plays the controller must keep whole.
	gangs bool
}

func randomJob(t *rapid.T, gangs bool) string {
	m := &jobMaker{t: t, gangs: gangs}
	fmt.Fprintf(&m.text, "job: random\nkeep_going: %v\nenvironments:\n  env: {go: ./e}\ntasks:\n", rapid.Bool().Draw(t, "keep"))
	for i := range rapid.IntRange(1, 7).Draw(t, "groups") {
		m.group(fmt.Sprintf("t%d", i))
	}
	fmt.Fprintf(&m.text, "outputs: [%q]\n", m.all[len(m.all)-1].whole())
	return m.text.String()
}

// whole refers to all that a group makes, or all of its first task's elements.
func (o *madeGroup) whole() string {
	switch {
	case o.gen != 0 && o.axis > 0:
		return o.name + "[0].o[*]"
	case o.gen != 0:
		return o.name + ".o[*]"
	case o.axis > 0 || o.stream != "":
		return o.name + "[*].o"
	}
	return o.name + ".o"
}

// pick chooses an earlier group.
func (m *jobMaker) pick(ok func(*madeGroup) bool) *madeGroup {
	var can []*madeGroup
	for i := range m.all {
		if ok(&m.all[i]) {
			can = append(can, &m.all[i])
		}
	}
	if len(can) == 0 {
		return nil
	}
	return can[rapid.IntRange(0, len(can)-1).Draw(m.t, "pick")]
}

func (m *jobMaker) group(name string) {
	t := m.t
	o := madeGroup{name: name}
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	var ins []string
	loop := ""
	switch {
	case kind >= 5:
		g := m.pick(func(p *madeGroup) bool { return p.gen == -1 && p.axis == 0 })
		if g == nil {
			break
		}
		o.stream = g.name
		loop = fmt.Sprintf("for: {e: \"%s.o[*]\"}, ", g.name)
		ins = append(ins, fmt.Sprintf("s: \"%s.o[${e}]\"", g.name))
		if p := m.pick(func(p *madeGroup) bool { return p.stream == g.name }); p != nil && rapid.Bool().Draw(t, "same") {
			ins = append(ins, fmt.Sprintf("p: \"%s[${e}].o\"", p.name))
		}
	case kind <= 1:
		o.axis, o.index = rapid.IntRange(2, 5).Draw(t, "axis"), "i"
		loop = fmt.Sprintf("for: {i: \"0..%d\"}, ", o.axis-1)
		if m.gangs && rapid.IntRange(0, 2).Draw(t, "gang") == 0 {
			o.index, loop = "rank", fmt.Sprintf("gang: %d, ", o.axis)
		}
	}
	for k := range rapid.IntRange(0, 2).Draw(t, "inputs") {
		if p := m.pick(func(*madeGroup) bool { return true }); p != nil {
			ins = append(ins, fmt.Sprintf("in%d: %s", k, m.input(&o, p)))
		}
	}
	out := "out: [o]"
	switch {
	case o.stream == "" && kind == 2:
		o.gen = rapid.IntRange(1, 9).Draw(t, "count")
		out = fmt.Sprintf("generates: {o: {count: %d, buffer: %d}}", o.gen, rapid.IntRange(1, 3).Draw(t, "buffer"))
	case o.stream == "" && (kind == 3 || kind == 4):
		o.gen = -1
		out = fmt.Sprintf("generates: {o: {count: \"*\", buffer: %d}}", rapid.IntRange(1, 6).Draw(t, "buffer"))
	}
	needs := rapid.SampledFrom([]string{"", "cpu: 0.5", "cpu: 2", "memory: 600MiB", "disk: 1"}).Draw(t, "resources")
	if o.index == "rank" && needs != "cpu: 2" {
		needs = "cpu: 0.4"
	}
	switch devices := rapid.SampledFrom([]string{"", "", "0.3", "0.5", "1", "2"}).Draw(t, "gpu"); {
	case devices == "":
	case o.index == "rank":
		needs = "cpu: 0.4, gpu: 0.5"
	case needs == "":
		needs = "gpu: " + devices
	default:
		needs += ", gpu: " + devices
	}
	if strings.Contains(needs, "gpu") {
		needs += rapid.SampledFrom([]string{"", ", gpu_memory: 3GiB", ", gpu_memory: 4GiB"}).Draw(t, "memory of devices")
	}
	function := rapid.SampledFrom([]string{"F", "F", "F", "\"env:G\""}).Draw(t, "function")
	fmt.Fprintf(&m.text, "  %s: {%srun: %s, %s, in: {%s}, resources: {%s}, retries: %d, keep_going: %v, priority: %d}\n", name, loop, function, out,
		strings.Join(ins, ", "), needs, rapid.IntRange(0, 2).Draw(t, "retries"), rapid.Bool().Draw(t, "goes on"), rapid.IntRange(0, 1).Draw(t, "priority"))
	m.all = append(m.all, o)
}

// input refers to what an earlier group makes, in one of the forms there are.
func (m *jobMaker) input(o, p *madeGroup) string {
	ref, many := p.whole(), p.axis > 0 || p.stream != "" || p.gen != 0
	switch {
	case p.gen > 0 && p.axis > 0:
		ref = p.name + "[*].o[*]"
	case p.gen > 0 && rapid.Bool().Draw(m.t, "one"):
		ref, many = fmt.Sprintf("%s.o[%d]", p.name, p.gen-1), false
	case p.gen == 0 && p.axis > 0 && p.axis == o.axis:
		ref, many = p.name+"[${"+o.index+"}].o", false
	}
	if many && rapid.IntRange(0, 2).Draw(m.t, "min") == 0 {
		return fmt.Sprintf("{from: %q, min: 1}", ref)
	}
	return fmt.Sprintf("%q", ref)
}
