package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Unfit returns all tasks that no host can run, and what each lacks there; "" when
// each task has a host, or there is none. The tasks of a family over an open
// generator count before they exist. Of more than unfitNames the rest is counted.
// Of a gang one host must have room for all members, or for one where it may
// spread over hosts, of which more may come.
func Unfit(g *dag.Graph, hosts []Host, spread bool) string {
	return unfit(g, hosts, func(grp *dag.Group) string {
		if spread {
			return lacking(g, grp, &grp.Resources, hosts)
		}
		return lackingOne(g, grp, hosts)
	})
}

// Apart returns the gangs of a graph that all hosts together cannot run at once, and
// why; "" when there is none. A plan places their members one by one.
func Apart(g *dag.Graph, hosts []Host) string {
	return unfit(g, hosts, func(grp *dag.Group) string {
		if grp.GangSize() == 0 {
			return ""
		}
		return lackingAll(g, grp, hosts)
	})
}

func unfit(g *dag.Graph, hosts []Host, lacks func(*dag.Group) string) string {
	if len(hosts) == 0 {
		return ""
	}
	var all []string
	for i := range g.Groups {
		if text := lacks(&g.Groups[i]); text != "" {
			all = append(all, fmt.Sprintf("task %s: %s", g.Groups[i].Name, text))
		}
	}
	if more := len(all) - unfitNames; more > 0 {
		all = append(all[:unfitNames], fmt.Sprintf("and %d more tasks that do not fit", more))
	}
	return strings.Join(all, "; ")
}

// lackingAll says why hosts cannot run the tasks of a group together; "" when they
// can. The members of a gang may be on several.
func lackingAll(g *dag.Graph, grp *dag.Group, hosts []Host) string {
	size, room := grp.GangSize(), 0
	for i := range hosts {
		room += hosts[i].room(g, grp)
	}
	if text := lacking(g, grp, &grp.Resources, hosts); text != "" || room >= size {
		return text
	}
	text := gangNeeds(grp)
	if len(hosts) == 1 {
		text += fmt.Sprintf("; the host has %d", room)
	} else {
		text += fmt.Sprintf("; the %d hosts have %d", len(hosts), room)
	}
	if slices.ContainsFunc(hosts, func(h Host) bool { return h.Alone }) {
		text += "; those with agents of an older version share none"
	}
	return text
}

// lackingOne says why no host alone can run the tasks of a group, all at once if they
// are a gang; "" when one can.
func lackingOne(g *dag.Graph, grp *dag.Group, hosts []Host) string {
	if text := lacking(g, grp, &grp.Resources, hosts); text != "" || grp.GangSize() < 2 {
		return text
	}
	room := 0
	for _, h := range hosts {
		h.Alone = false
		room = max(room, h.room(g, grp))
	}
	if room >= grp.GangSize() {
		return ""
	}
	return fmt.Sprintf("%s on one host; the largest has %d", gangNeeds(grp), room)
}

// gangNeeds says what the members of a gang need together.
func gangNeeds(grp *dag.Group) string {
	r := &grp.Resources
	each := []string{"cpu " + thousandths(cpuOf(r))}
	if r.Memory > 0 {
		each = append(each, "memory "+memoryText(r.Memory))
	}
	if r.GPU > 0 {
		each = append(each, "gpu "+thousandths(r.GPU))
	}
	if r.GPUMemory > 0 {
		each = append(each, "gpu_memory "+memoryText(r.GPUMemory))
	}
	for _, name := range sortedNames(r.Custom) {
		if !dag.OwnResource(name) {
			each = append(each, name+" "+thousandths(r.Custom[name]))
		}
	}
	return fmt.Sprintf("its gang needs %d places of %s at once", grp.GangSize(), strings.Join(each, ", "))
}

// unfitNames bounds the tasks that one error names: it travels with each progress
// of a job that waits for a host.
const unfitNames = 20

// Runs tells whether the host has enough for each task of a graph, and binaries of
// its platform for each.
func (h *Host) Runs(g *dag.Graph) bool {
	for i := range g.Groups {
		if grp := &g.Groups[i]; !h.serves(g, grp) || !h.fits(grp) {
			return false
		}
	}
	return true
}

// Room returns how many members of a task's gang the host could run at once, at
// most all of them; 0 when the task is in none, or the host is for whole gangs only
// and has no room for all.
func (h *Host) Room(g *dag.Graph, i dag.TaskIndex) int { return h.room(g, g.Group(i)) }

func (h *Host) room(g *dag.Graph, grp *dag.Group) int {
	if !h.serves(g, grp) {
		return 0
	}
	n := h.times(&grp.Resources, grp.GangSize())
	if h.Alone && n < grp.GangSize() {
		return 0
	}
	return n
}

// times returns how many tasks that need so much the host can run at once, at most n.
func (h *Host) times(r *dag.Resources, n int) int {
	most := int64(n)
	bound := func(need, have int64) {
		if need > 0 {
			most = min(most, have/need)
		}
	}
	bound(cpuOf(r), h.CPU)
	if h.Memory > 0 {
		bound(r.Memory, h.Memory)
	}
	for name, need := range r.Custom {
		bound(need, h.Custom[name])
	}
	return int(min(most, h.deviceRoom(r)))
}

// fits tells whether the host has enough for a task of a group: of a gang, which
// starts as one, for all of its members.
func (h *Host) fits(grp *dag.Group) bool {
	n := max(grp.GangSize(), 1)
	return h.times(&grp.Resources, n) == n
}

// fitsOne is fits for one member of a gang.
func (h *Host) fitsOne(r *dag.Resources) bool { return h.times(r, 1) == 1 }

// lacking says why no host runs a group's tasks, which take so much: for the platform
// of none there is a binary, or of which resources even the largest has too little; ""
// when a host has all.
func lacking(g *dag.Graph, grp *dag.Group, r *dag.Resources, hosts []Host) string {
	if !g.NamesPlatforms() {
		return tooSmall(r, hosts)
	}
	serving := slices.DeleteFunc(slices.Clone(hosts), func(h Host) bool { return !h.serves(g, grp) })
	if len(serving) == 0 {
		return withoutBinary(g, grp, hosts)
	}
	text := tooSmall(r, serving)
	if text != "" {
		text += unserved(g, grp, r, hosts)
	}
	return text
}

// tooSmall says of which resources even the largest host has too little, "" when a
// host has enough of all.
func tooSmall(r *dag.Resources, hosts []Host) string {
	var cpu, memory, gpu int64
	custom := map[string]int64{}
	for i := range hosts {
		h := &hosts[i]
		if h.fitsOne(r) {
			return ""
		}
		cpu, memory, gpu = max(cpu, h.CPU), max(memory, h.Memory), max(gpu, h.GPU)
		for name, n := range h.Custom {
			custom[name] = max(custom[name], n)
		}
	}
	var parts []string
	want := func(name, need, most string, short bool) {
		if short {
			has := "the largest host has " + most
			if most == "0" {
				has = "no host has any; " + remedy(name)
			}
			parts = append(parts, fmt.Sprintf("%s %s (%s)", name, need, has))
		}
	}
	want("cpu", thousandths(cpuOf(r)), thousandths(cpu), cpuOf(r) > cpu)
	want("memory", memoryText(r.Memory), memoryText(memory), r.Memory > memory && memory > 0)
	want("gpu", thousandths(r.GPU), thousandths(gpu), r.GPU > gpu)
	if text := lackingDevices(r, hosts); text != "" && r.GPU <= gpu {
		parts = append(parts, text)
	}
	for _, n := range sortedNames(r.Custom) {
		if custom[n] == 0 && strings.HasPrefix(n, dag.HostResource) {
			parts = append(parts, "the host that has its files, and no agent of that is here")
			continue
		}
		if agent, one := strings.CutPrefix(n, dag.AgentPrefix); one && custom[n] == 0 {
			parts = append(parts, "agent "+agent+", which is not here")
			continue
		}
		want(n, thousandths(r.Custom[n]), thousandths(custom[n]), r.Custom[n] > custom[n])
	}
	if parts == nil {
		return "no host has enough of all that it needs together"
	}
	return "no host has enough: it needs " + strings.Join(parts, ", ")
}

// remedy says what to write where no host has any of what a task needs.
func remedy(name string) string {
	if hint := dag.MeantResource(name); hint != "" {
		return hint
	}
	if name == "gpu" {
		return "--gpus says how many one has"
	}
	return "--resource says how much one has"
}

func thousandths(n int64) string { return fmt.Sprintf("%g", float64(n)/1000) }

// memoryText prints bytes in the largest unit that leaves at least one.
func memoryText(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	return fmt.Sprintf("%.4g %s", size, unit)
}
