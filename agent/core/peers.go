package core

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A job whose tasks are spread over several agents has peers. Tasks of theirs are
// absent here until a Notice says how they ended; datasets of theirs are copies
// here, with the references of the consumers that are here.

// neighbour is another agent with which this one shares jobs.
type neighbour struct {
	name      string
	up, full  bool
	process   uint64 // incarnation at the other end of the link
	addresses []string
	jobs      int // that have it among their peers; one more while calls may go there or come from there

	// Of calls: see acquaint.
	met    bool
	used   time.Time // last
	out    int       // own calls that it has, or is to be told of
	guests int       // its tasks that are hosted here
	hosted map[hostingKey]*job
	outbox []comms.Message
	kept   int       // happenings in outbox, about
	says   bool      // in Core.saying
	missed time.Time // since when the link is waited for; zero: it is not
	shun   time.Time // until when no call goes there

	shunFor time.Duration // how long that was last; 0: a call has ended there since
	window  window
}

// peers is what a job knows of its other fragments.
type peers struct {
	list []*fragment // by name of the agent
	runs []away      // who runs what, by task

	out   map[comms.DatasetRef][]*fragment // who may still read a dataset that is here; by name
	heard map[comms.DatasetRef]*heard      // datasets of others that are needed here
	old   map[comms.DatasetRef]*dataset    // copies of the epoch before, until they are told again

	unsure  bool                  // something waits to be told again
	quiet   bool                  // an Assign is being taken: all is counted anew after it
	anew    map[taskIndex]bool    // tasks that restart: their ends that were not announced yet are not announced
	flying  map[taskIndex]int     // how many datasets of a task are needed and not here yet
	coming  map[taskIndex]uint32  // how many datasets that a task reads are to be fetched, or on their way
	landing bool                  // what reads one of these is just told that it is here
	ending  map[taskIndex]*ending // how tasks have ended of which not all is here
}

// fragment is the part of a job that another agent has, and what it was not told yet.
type fragment struct {
	*neighbour
	incarnation uint64 // to which it was given

	data     []comms.DatasetRef // published, or (no dataset of that name is here) gone
	ends     []comms.StreamEnd
	ended    []comms.Ended
	released []comms.DatasetRef
}

// listens tells whether the process to which the fragment was given can be told
// something now. One that came after it knows nothing of this epoch and may never be
// told of it: the controller gives it tasks, if any, at a later one.
func (f *fragment) listens() bool { return f.up && !f.full && f.process == f.incarnation }

// away is tasks that another agent runs.
type away struct {
	first, last taskIndex
	by          *fragment
}

// ending is how a task of a peer has ended.
type ending struct {
	how  comms.Outcome // 0: not told yet
	ends []comms.StreamEnd
}

// setPeers takes over which agents have the other fragments of a job. Datasets that
// were announced and fetched before count again when they are announced at the new epoch.
func (c *Core) setPeers(j *job, m *comms.Assign) {
	all := m.Peers
	if j.peers == nil && len(all)+len(m.Adopt) == 0 {
		return
	}
	before, p := j.peers, newPeers()
	p.quiet, p.unsure = true, true
	for i := range all {
		f := &all[i]
		if f.Agent == c.cfg.Agent {
			continue
		}
		fr := &fragment{neighbour: c.meet(f), incarnation: f.Incarnation}
		p.list = append(p.list, fr)
		for _, r := range f.Run {
			p.runs = append(p.runs, away{r.First, r.Last, fr})
		}
	}
	slices.SortFunc(p.list, func(a, b *fragment) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(p.runs, func(a, b away) int { return cmp.Compare(a.first, b.first) })
	j.peers = p
	if before != nil {
		p.old = before.old
		c.inherit(j, before)
		c.part(before)
	}
	if !j.fresh {
		c.giveAway(j, m.Ended)
		c.takeOver(j, m)
	}
	if len(all)+len(m.Adopt) == 0 {
		c.dropOld(j)
		j.peers = nil
	}
}

func newPeers() *peers {
	return &peers{out: map[comms.DatasetRef][]*fragment{}, heard: map[comms.DatasetRef]*heard{}, old: map[comms.DatasetRef]*dataset{},
		anew: map[taskIndex]bool{}, flying: map[taskIndex]int{}, coming: map[taskIndex]uint32{}, ending: map[taskIndex]*ending{}}
}

// inherit keeps what is being fetched: it may be told again.
func (c *Core) inherit(j *job, before *peers) {
	for _, ref := range sortedRefs(before.heard) {
		h := before.heard[ref]
		c.unwant(h)
		if h.state == hearHere || len(j.peers.list) == 0 {
			c.forgetPull(h)
			continue
		}
		if h.state == hearRoom {
			c.forgetPull(h)
		}
		h.from, h.stale, h.gone, h.flying, h.expected = nil, true, false, false, false
		j.peers.heard[ref] = h
	}
}

// giveAway ends what this agent knew of tasks that others have now: outputs that it
// made of them count no more, outputs that it fetched wait until they are announced
// again. Ended tasks stay, although the generator of an instance is another's now.
func (c *Core) giveAway(j *job, over []comms.Ended) {
	for _, r := range j.peers.runs {
		for t := r.first; int(t) < len(j.tasks) && t <= r.last; t++ {
			c.makeAbsent(j, t, true)
		}
	}
	ended := endedIn(over)
	for i := j.static; i < len(j.tasks); i++ { // those of generators that others have
		if t := taskIndex(i); j.awayAt(t) != nil && !(ended(t) && j.tasks[i].state.over()) {
			c.makeAbsent(j, t, true)
		}
	}
}

// endedIn returns a function that tells, of tasks in order, whether an Assign lists them as ended.
func endedIn(over []comms.Ended) func(taskIndex) bool {
	k := 0
	return func(t taskIndex) bool {
		for k < len(over) && over[k].Last < t {
			k++
		}
		return k < len(over) && over[k].First <= t
	}
}

// takeOver restarts tasks that others had: outputs that were fetched of them are of
// an attempt that counts no more.
func (c *Core) takeOver(j *job, m *comms.Assign) {
	begin := func(t taskIndex) {
		if s := &j.tasks[t]; s.state == tAbsent || s.state.over() && s.flags&fElsewhere != 0 {
			c.makeAbsent(j, t, false)
		}
	}
	for _, r := range m.Run {
		for t := r.First; int(t) < len(j.tasks) && t <= r.Last; t++ {
			begin(t)
		}
	}
	ended := endedIn(m.Ended)
	for i := j.static; i < len(j.tasks); i++ { // those of which the sender had heard nothing
		if t := taskIndex(i); !ended(t) && j.awayAt(t) == nil {
			begin(t)
		}
	}
}

// makeAbsent forgets a task, but that it was skipped before it came into being. Copies of
// what it made are kept to be told again, or freed.
func (c *Core) makeAbsent(j *job, t taskIndex, keep bool) {
	if j.hasMember(t) {
		c.leaveGang(j, t)
	}
	s := &j.tasks[t]
	if s.state != tAbsent && !s.state.over() {
		c.disown(j, t)
	}
	for o := range j.groupOf(t).group.Outputs {
		k, n := outputKey{t, uint32(o)}, uint64(1)
		if st := j.streams[k]; st != nil {
			n = st.next
			delete(j.streams, k)
		}
		for e := range n {
			ref := comms.DatasetRef{Task: t, Output: k.output, Element: e}
			d := j.data[ref]
			switch {
			case d == nil:
			case d.copy && keep:
				delete(j.data, ref)
				j.peers.old[ref] = d
			default:
				c.freeData(j, d)
			}
		}
	}
	delete(j.edgeCache, t)
	*s = task{attempt: s.attempt, flags: s.flags & fUnborn}
}

// dropOld frees copies that were not announced again.
func (c *Core) dropOld(j *job) {
	for _, ref := range sortedRefs(j.peers.old) {
		c.freeOld(j, ref)
	}
}

func (c *Core) freeOld(j *job, ref comms.DatasetRef) {
	d := j.peers.old[ref]
	delete(j.peers.old, ref)
	if d.sealed {
		c.must(c.led.Unref(j.key(d), 1))
		c.effects()
	}
	c.freedOffer(j, d) // hosts of calls that pass it have fetched it
}

// meet finds the neighbour that has a fragment, or makes its acquaintance.
func (c *Core) meet(f *comms.Assignment) *neighbour {
	n := c.neighbour(f.Agent)
	if n.jobs == 0 || !slices.Equal(n.addresses, f.Addresses) {
		n.addresses = f.Addresses
		c.emit(MeetPeer{Agent: f.Agent, Incarnation: f.Incarnation, Addresses: f.Addresses})
	}
	n.jobs++
	return n
}

func (c *Core) neighbour(name string) *neighbour {
	n := c.neighbours[name]
	if n == nil {
		n = &neighbour{name: name}
		if c.neighbours == nil {
			c.neighbours = map[string]*neighbour{}
		}
		c.neighbours[name] = n
	}
	return n
}

// part lets neighbours go with whom no other job is shared.
func (c *Core) part(p *peers) {
	for _, f := range p.list {
		if f.jobs--; f.jobs == 0 {
			c.emit(LeavePeer{f.name})
			c.unmeet(f.neighbour)
		}
	}
}

// unmeet forgets a neighbour that nothing is known of any more.
func (c *Core) unmeet(n *neighbour) {
	if n.jobs == 0 && !n.up && n.out+n.guests+len(n.outbox)+len(n.hosted) == 0 {
		delete(c.neighbours, n.name)
	}
}

// dropPeers ends all that a job has to do with others.
func (c *Core) dropPeers(j *job) {
	if j.peers == nil {
		return
	}
	for _, ref := range sortedRefs(j.peers.heard) {
		c.forgetPull(j.peers.heard[ref])
		c.unwant(j.peers.heard[ref])
	}
	c.dropOld(j)
	c.part(j.peers)
	j.peers = nil
}

// awayAt returns who has a task, nil when no other agent has it. Instances run
// where their generator does, unless an Assign names them.
func (j *job) awayAt(t taskIndex) *fragment {
	if j.peers == nil {
		return nil
	}
	if f := j.peers.at(t); f != nil || int(t) < j.static {
		return f
	}
	if st := j.spec(t).Stream; st != nil {
		return j.peers.at(st.Generator)
	}
	return nil
}

func (p *peers) at(t taskIndex) *fragment {
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].last >= t })
	if i < len(p.runs) && p.runs[i].first <= t {
		return p.runs[i].by
	}
	return nil
}

// slotReads tells whether tasks of a streamed group that are here, or are to come
// here, may still read what they share.
func (j *job) slotReads(s int) bool {
	if j.peers == nil {
		return !j.slots[s].done
	}
	gen := j.slots[s].key.task
	if j.awayAt(gen) != nil {
		return false
	}
	if !j.endedAway(gen) {
		return !j.slots[s].done
	}
	for i := j.static + s; i < len(j.tasks); i += len(j.slots) {
		if t := &j.tasks[i]; t.state != tAbsent && t.flags&fReleased == 0 {
			return true
		}
	}
	return false
}

// endedAway tells whether a task has ended on another agent.
func (j *job) endedAway(t taskIndex) bool {
	return j.peers.endsLater(t) || int(t) < len(j.tasks) && j.tasks[t].state.over() && j.tasks[t].flags&fElsewhere != 0
}

// readers lists the agents that have consumers of a dataset, by name.
func (j *job) readers(ref comms.DatasetRef) (all []*fragment) {
	gs := j.groupOf(ref.Task)
	if !gs.read {
		return nil
	}
	edges := ofOutput(j.edgesOf(ref.Task), ref.Output)
	generated := gs.group.Outputs[ref.Output].Generate != dag.GenerateNone
	for i := range edges {
		if !generated || edges[i].Kind == dag.SourceStream || edges[i].Element == ref.Element {
			all = addFragment(all, j.awayAt(edges[i].Consumer))
		}
	}
	for _, s := range j.graph.SlotConsumers(ref.Task, ref.Output) {
		all = j.addSlot(all, s)
	}
	// Instances whose generator has ended are named one by one.
	for i := range j.instances(ref) {
		all = addFragment(all, j.peers.at(i))
	}
	return all
}

// audience lists the agents that wait for the end of a task, by name.
func (j *job) audience(t taskIndex) (all []*fragment) {
	gs := j.groupOf(t)
	if s := j.at(t).state; gs.ganged() && s.over() && s != tFinished { // the other members of its gang end with it
		for _, m := range j.gangOf(t).all() {
			all = addFragment(all, j.awayAt(m))
		}
	}
	if !gs.read {
		return all
	}
	edges := j.edgesOf(t)
	for i := range edges {
		all = addFragment(all, j.awayAt(edges[i].Consumer))
	}
	for o, out := range gs.group.Outputs {
		for _, s := range j.graph.SlotConsumers(t, uint32(o)) {
			all = j.addSlot(all, s)
		}
		if out.Generate == dag.GenerateNone {
			continue
		}
		for _, s := range j.graph.StreamSlots(t, uint32(o)) {
			zero, err := j.graph.Instance(s, 0)
			if err != nil {
				continue
			}
			for _, e := range j.consumers(zero) {
				if e.Kind == dag.SourceGroup { // they must know how many instances there are
					all = addFragment(all, j.awayAt(e.Consumer))
				}
			}
			for o := range j.spec(zero).Outputs {
				for _, s := range j.graph.SlotConsumers(zero, uint32(o)) {
					all = j.addSlot(all, s)
				}
			}
		}
	}
	return all
}

// addSlot adds who has tasks of a streamed group: those that are to come, and
// those that an Assign names because their generator has ended.
func (j *job) addSlot(all []*fragment, s int) []*fragment {
	all = addFragment(all, j.peers.at(j.slots[s].key.task))
	n := len(j.slots)
	runs := j.peers.runs
	for _, r := range runs[sort.Search(len(runs), func(i int) bool { return int(runs[i].last) >= j.static }):] {
		first := max(int(r.first), j.static)
		if i := first + ((s-(first-j.static)%n)+n)%n; i <= int(r.last) {
			all = addFragment(all, r.by)
		}
	}
	return all
}

func addFragment(all []*fragment, f *fragment) []*fragment {
	if f == nil || len(all) > 0 && all[len(all)-1] == f {
		return all
	}
	i, found := slices.BinarySearchFunc(all, f, func(a, b *fragment) int { return cmp.Compare(a.name, b.name) })
	if found {
		return all
	}
	return slices.Insert(all, i, f)
}

func sortedRefs[V any](m map[comms.DatasetRef]V) []comms.DatasetRef {
	refs := make([]comms.DatasetRef, 0, len(m))
	for r := range m {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, comms.DatasetRef.Compare)
	return refs
}

// greetPeers begins an epoch with the others: they are told all that they may need.
func (c *Core) greetPeers(j *job) {
	j.peers.quiet = false
	for _, ref := range sortedRefs(j.peers.heard) { // a task that has ended for all is not announced again
		if h := j.peers.heard[ref]; h != nil && h.stale && j.awayAt(ref.Task) == nil {
			c.neverComes(j, ref.Task, true)
		}
	}
	c.tellAll(j, j.peers.list)
}

// unplace takes back a task that no executor has when an input of it is not what
// counts any more: another agent may make it anew.
func (c *Core) unplace(j *job, t taskIndex) {
	if missing, _ := c.countMissing(j, t); missing > 0 {
		c.dropUnplaced(j, t)
		j.at(t).state = tWaiting
	}
}

// askMissing asks for outputs of tasks that have ended elsewhere, which are needed
// here and which no agent has.
func (c *Core) askMissing(j *job) {
	for i := range j.tasks {
		if j.tasks[i].state != tWaiting {
			continue
		}
		for _, ref := range j.gone(taskIndex(i), true) {
			if s := j.at(ref.Task); s.state == tFinished && s.flags&fElsewhere != 0 {
				c.askFor(j, ref)
			}
		}
	}
}
