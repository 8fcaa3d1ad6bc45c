package dag

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// references resolves every input of every group.
func (r *resolver) references() {
	for gi := range r.g.Groups {
		grp := &r.g.Groups[gi]
		if s := grp.Stream; s != nil && len(r.issues) == 0 {
			r.ix.groups[r.ix.groupOfNode(uint32(s.Generator))].needed = true
		}
		r.ix.groups[gi].refBase = uint32(len(r.ix.refs))
		paths := map[string]uint64{}
		for di := range grp.Inputs {
			d := &grp.Inputs[di]
			sources, known := uint64(0), true
			for fi := range d.From {
				base := len(r.ix.refs)
				r.ix.refs = append(r.ix.refs, refIndex{})
				t, err := r.bind(gi, d.From[fi].Text)
				if err == nil && t != nil {
					err = r.fill(gi, t, &r.ix.refs[base])
				}
				if t != nil {
					u := &r.ix.groups[t.group]
					u.needed, u.spared = u.needed || d.Min == 0, u.spared || d.Min > 0
				}
				x := &r.ix.refs[base]
				if err == nil && t != nil && !d.List && (x.kind == SourceStream || x.kind == SourceGroup || t.star()) {
					err = mistake("it stands for a list of datasets", "mark the input as a list")
				}
				if err != nil {
					r.reportFrom(gi, "in", d.Name, fi, d.From[fi], fmt.Errorf("input %q: %w", d.Name, err))
				}
				sources += uint64(x.stride)
				known = known && t != nil && err == nil && x.kind != SourceStream && x.kind != SourceGroup
			}
			if !d.List && len(d.From) > 1 {
				r.reportFrom(gi, "in", d.Name, 0, d.From[0], mistake(fmt.Sprintf("input %q has %d sources", d.Name, len(d.From)), "mark the input as a list"))
			}
			if d.Min > 0 && known && uint64(d.Min) > sources {
				r.report(gi, "in", d.Name, mistake(fmt.Sprintf("input %q: min is %d but there are %d datasets", d.Name, d.Min, sources), fmt.Sprintf("at most %d", sources)))
			}
			if paths[d.Name] = sources; d.Min > 0 {
				paths[d.Name] = min(sources, uint64(d.Min))
			}
		}
		if err := checkLists(grp.Run.Command, paths); err != nil {
			r.report(gi, "command", "", err)
		}
	}
}

// fill computes the sources that one reference of group gi (-1: the job's
// outputs) has for each of the group's tasks, and stores them in x.
func (r *resolver) fill(gi int, t *target, x *refIndex) error {
	ix := r.ix
	x.kind, x.output, x.relative, x.bound = t.kind, t.output, t.relative, t.bound
	rows := uint64(1)
	if gi >= 0 {
		rows = uint64(ix.groups[gi].size)
	}
	out := &r.g.Groups[t.group].Outputs[t.output]
	perTask := uint64(1)
	if t.elemAll {
		perTask = out.Count
	}
	limit := uint64(r.opt.MaxEdges) // below 2^31, as is the number of tasks a star stands for
	count := r.starCount(t)
	if perTask > limit || count*perTask > limit || r.edges+count*perTask*rows > limit {
		return mistake(fmt.Sprintf("the job would have more than %d dependencies", limit), "let one task collect the list and the others read its result, or raise the limit")
	}
	stars := r.starOffsets(t)
	x.stride = uint32(count * perTask)
	r.edges += uint64(x.stride) * rows
	x.shared = !t.varies()
	x.base, x.elemBase = len(ix.srcTask), len(ix.srcElem)
	if x.shared {
		rows = min(rows, 1)
	}
	start := ix.nodeStart(r.g, t.group)
	hasElem := t.kind == SourceElement && !t.bound
	row := &groupRow{}
	if gi >= 0 {
		row.group = &r.g.Groups[gi]
	}
	for local := range rows {
		row.local = uint32(local)
		base, elem, err := r.offsets(t, r.consumerScope(gi), row)
		if err != nil {
			x.stride = 0
			return err
		}
		for _, s := range stars {
			for e := range perTask {
				ix.srcTask = append(ix.srcTask, start+base+s)
				if hasElem {
					ix.srcElem = append(ix.srcElem, elem+e)
				}
			}
		}
	}
	return nil
}

func (r *resolver) consumerScope(gi int) *scope {
	if gi < 0 {
		return nil
	}
	return r.scopes[gi]
}

// varies tells whether the sources differ between the consumer's tasks.
func (t *target) varies() bool {
	for _, p := range t.index {
		if p.tpl != nil {
			return true
		}
	}
	return t.elem.tpl != nil
}

// star tells whether the reference stands for a list.
func (t *target) star() bool {
	for _, p := range t.index {
		if p.all {
			return true
		}
	}
	return t.elemAll
}

// starCount returns how many tasks the axes indexed with * stand for.
func (r *resolver) starCount(t *target) uint64 {
	n := uint64(1)
	for i := range t.index {
		if t.index[i].all {
			n *= uint64(r.g.Groups[t.group].Axes[i].Len())
		}
	}
	return n
}

// starOffsets lists the offsets of all combinations of the axes indexed with *.
func (r *resolver) starOffsets(t *target) []uint32 {
	offs := []uint32{0}
	mult := uint32(1)
	for i := len(t.index) - 1; i >= 0; i-- {
		n := r.g.Groups[t.group].Axes[i].Len()
		if t.index[i].all {
			next := make([]uint32, 0, len(offs)*n)
			for v := range n {
				for _, o := range offs {
					next = append(next, uint32(v)*mult+o)
				}
			}
			offs = next
		}
		mult *= uint32(n)
	}
	return offs
}

// offsets gives the offset within the target's group of the tasks a row means,
// apart from axes indexed with *, and the element.
func (r *resolver) offsets(t *target, sc *scope, row row) (local uint32, elem uint64, err error) {
	grp := &r.g.Groups[t.group]
	for i := range t.index {
		p := &t.index[i]
		at := uint32(p.konst)
		if p.tpl != nil {
			v, err := p.tpl.eval(sc, row)
			if err != nil {
				return 0, 0, err
			}
			n, err := r.axisPosition(t.group, i, v)
			if err != nil {
				return 0, 0, r.forRow(err, row)
			}
			at = uint32(n)
		}
		local = local*uint32(grp.Axes[i].Len()) + at
	}
	elem = t.elem.konst
	if t.elem.tpl != nil {
		v, err := t.elem.tpl.eval(sc, row)
		if err != nil {
			return 0, 0, err
		}
		out := &grp.Outputs[t.output]
		if elem, err = elementNumber(v, out, grp.Name+"."+out.Name); err != nil {
			return 0, 0, r.forRow(err, row)
		}
	}
	return local, elem, nil
}

// forRow adds for which task a reference failed.
func (r *resolver) forRow(err error, row row) error {
	gr, ok := row.(*groupRow)
	if !ok || gr.group == nil {
		return err
	}
	message, hint := splitHint(err)
	return mistake(fmt.Sprintf("%s, which %s needs", message, gr.name()), hint)
}

// exports resolves the job's outputs.
func (r *resolver) exports() {
	paths := map[string]bool{}
	for ei := range r.g.Exports {
		ex := &r.g.Exports[ei]
		ex.Sources = nil
		t, err := r.bind(-1, ex.From.Text)
		var x refIndex
		mark, markElem := len(r.ix.srcTask), len(r.ix.srcElem)
		if err == nil && t != nil {
			err = r.fill(-1, t, &x)
		}
		if err != nil {
			r.reportFrom(-1, "outputs", "", ei, ex.From, fmt.Errorf("output: %w", err))
			continue
		}
		if t == nil {
			continue
		}
		for k := range int(x.stride) {
			s := Source{Kind: x.kind, Task: TaskIndex(r.ix.srcTask[x.base+k]), Output: x.output}
			if x.kind == SourceElement {
				s.Element = r.ix.srcElem[x.elemBase+k]
			}
			ex.Sources = append(ex.Sources, s)
		}
		r.ix.srcTask, r.ix.srcElem = r.ix.srcTask[:mark], r.ix.srcElem[:markElem]
		r.checkExport(ei, paths)
	}
}

func (r *resolver) checkExport(ei int, paths map[string]bool) {
	ex := &r.g.Exports[ei]
	if err := checkText(ex.Path); err != nil {
		r.reportFrom(-1, "outputs", "", ei, ex.From, fmt.Errorf("output: %w", err))
	}
	folder := len(ex.Path) > 0 && ex.Path[len(ex.Path)-1] == '/'
	series := len(ex.Sources) != 1 || ex.Sources[0].Kind == SourceStream || ex.Sources[0].Kind == SourceGroup
	if ex.Path != "" && !folder && series {
		r.reportFrom(-1, "outputs", "", ei, ex.From, mistake(fmt.Sprintf("output %s stands for several datasets, %q is one file", clip(ex.From.Text), clip(ex.Path)), "end the path with / to name a folder"))
	}
	if ex.Path == "~" || strings.HasPrefix(ex.Path, "~/") {
		r.reportFrom(-1, "outputs", "", ei, ex.From, mistake(fmt.Sprintf("output: only shells read ~ in %q as the home folder", clip(ex.Path)), "write the folder's path; ./~/ is a folder named ~"))
	}
	if ex.Path != "" && !folder {
		file := path.Clean(ex.Path)
		if paths[file] {
			r.reportFrom(-1, "outputs", "", ei, ex.From, mistake(fmt.Sprintf("two outputs go to the file %q", clip(ex.Path)), "give one of them another path"))
		}
		paths[file] = true
	}
}

// eachEdge calls f for each dependency: the producer and consumer as nodes, the
// reference and the element. Nodes are static tasks, then slots.
func (r *resolver) eachEdge(f func(producer, consumer, ref uint32, elem uint64)) {
	ix := r.ix
	for gi := range ix.groups {
		first, last := ix.refRange(gi)
		start := ix.nodeStart(r.g, gi)
		for local := range ix.groups[gi].size {
			for ri := first; ri < last; ri++ {
				x := &ix.refs[ri]
				at, elemAt := x.at(local)
				for k := range int(x.stride) {
					elem := uint64(0)
					if x.kind == SourceElement && !x.bound {
						elem = ix.srcElem[elemAt+k]
					}
					f(ix.srcTask[at+k], start+local, uint32(ri), elem)
				}
			}
		}
	}
}

// consumers inverts the references into compressed rows, one for each node.
func (r *resolver) consumers() {
	ix := r.ix
	nodes := ix.tasks + ix.slots
	ix.outStart = make([]uint32, nodes+1)
	elements := len(ix.srcElem) > 0
	r.eachEdge(func(p, _, ref uint32, _ uint64) {
		if !ix.refs[ref].bound {
			ix.outStart[p+1]++
		}
	})
	for i := range nodes {
		ix.outStart[i+1] += ix.outStart[i]
	}
	total := ix.outStart[nodes]
	ix.out = make([]outEdge, total)
	if elements {
		ix.outElem = make([]uint64, total)
	}
	next := slices.Clone(ix.outStart[:nodes])
	r.eachEdge(func(p, c, ref uint32, elem uint64) {
		if ix.refs[ref].bound {
			return
		}
		ix.out[next[p]] = outEdge{consumer: c, ref: ref}
		if elements {
			ix.outElem[next[p]] = elem
		}
		next[p]++
	})
	for p := range nodes {
		ix.sortEdges(ix.outStart[p], ix.outStart[p+1])
	}
}
