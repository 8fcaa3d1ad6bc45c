package core

import (
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// master is a controller of a job on several agents, as simple as can be: what
// ended stays so until somebody who needs an output says that it is lost.
type master struct {
	n       *network
	job     comms.JobID
	graph   *dag.Graph
	keep    exports
	epoch   uint64
	dead    map[int]bool
	owner   map[taskIndex]int
	ends    map[taskIndex]comms.Outcome
	attempt map[taskIndex]uint32
	data    map[comms.DatasetRef]kept // of ended tasks and generators, as told
	counts  map[outputKey]uint64      // elements that were published
	lost    []comms.DatasetRef        // told as such since the last epoch
	reruns  int
	moving  bool // agents have different epochs
}

// kept is where a dataset is.
type kept struct {
	at   int
	desc comms.Desc
}

func newMaster(n *network, job comms.JobID, g *dag.Graph, of []int) *master {
	m := &master{n: n, job: job, graph: g, keep: exportsOf(g), epoch: 1, dead: map[int]bool{}, owner: map[taskIndex]int{},
		ends: map[taskIndex]comms.Outcome{}, attempt: map[taskIndex]uint32{}, data: map[comms.DatasetRef]kept{}, counts: map[outputKey]uint64{}}
	for t, a := range of {
		m.owner[taskIndex(t)], m.attempt[taskIndex(t)] = a, 1
	}
	return m
}

// ownerOf is who has a task: instances go with their generator.
func (m *master) ownerOf(t taskIndex) int {
	if a, ok := m.owner[t]; ok {
		return a
	}
	if s := m.graph.Group(t).Stream; s != nil {
		return m.owner[s.Generator]
	}
	return -1
}

// event takes a committed event of an agent. Late ones count no more.
func (m *master) event(at int, e comms.Event) {
	if e.Kind == comms.EventLost {
		if k, ok := m.data[e.Cause.Ref]; ok && k.at == at {
			delete(m.data, e.Cause.Ref)
		}
		if at != m.ownerOf(e.Task) || m.dead[m.ownerOf(e.Task)] || e.Cause.Kind != comms.CauseMemory {
			m.lost = append(m.lost, e.Cause.Ref)
		}
		return
	}
	if at != m.ownerOf(e.Task) || e.Attempt < m.attempt[e.Task] {
		return
	}
	m.attempt[e.Task] = max(m.attempt[e.Task], e.Attempt)
	for _, d := range e.Outputs {
		if d.Place.Kind != comms.PlaceNone {
			m.data[d.Ref] = kept{at, d}
		}
		if e.Kind == comms.EventPublished {
			k := outputKey{e.Task, d.Ref.Output}
			m.counts[k] = max(m.counts[k], d.Ref.Element+1)
			for _, s := range m.graph.StreamSlots(e.Task, d.Ref.Output) {
				if i, err := m.graph.Instance(s, d.Ref.Element); err == nil {
					m.attempt[i] = max(m.attempt[i], 1)
				}
			}
		}
	}
	switch e.Kind {
	case comms.EventFinished:
		m.ends[e.Task] = comms.OutcomeDone
	case comms.EventFailed:
		m.ends[e.Task] = comms.OutcomeFailed
	case comms.EventSkipped:
		m.ends[e.Task] = comms.OutcomeSkipped
	case comms.EventCancelled:
		m.ends[e.Task] = comms.OutcomeCancelled
	case comms.EventRetry:
		delete(m.ends, e.Task)
		m.attempt[e.Task] = e.Attempt + 1
	}
}

// tasks lists all tasks that are known, sorted.
func (m *master) tasks() (all []taskIndex) {
	for t := range m.attempt {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}

// open tells whether a slot's tasks may still read what they share.
func (m *master) open(s int) bool {
	zero, _ := m.graph.Instance(s, 0)
	if m.ends[m.graph.Group(zero).Stream.Generator] == 0 {
		return true
	}
	for t := range m.attempt {
		if at, _, ok := m.graph.Slot(t); ok && at == s && m.ends[t] == 0 {
			return true
		}
	}
	return false
}

// needed tells whether a dataset is kept: somebody who reads it has not ended.
func (m *master) needed(ref comms.DatasetRef) bool {
	if m.keep.has(m.graph, ref) {
		return true
	}
	generated := m.graph.Group(ref.Task).Outputs[ref.Output].Generate != dag.GenerateNone
	for _, e := range m.graph.Consumers(ref.Task) {
		if e.Output == ref.Output && (!generated || e.Kind == dag.SourceStream || e.Element == ref.Element) && m.ends[e.Consumer] == 0 {
			return true
		}
	}
	for _, s := range m.graph.StreamSlots(ref.Task, ref.Output) {
		if i, err := m.graph.Instance(s, ref.Element); err == nil && m.ends[i] == 0 {
			return true
		}
	}
	return slices.ContainsFunc(m.graph.SlotConsumers(ref.Task, ref.Output), m.open)
}

// inputs lists the datasets that a task reads, as far as they were made.
func (m *master) inputs(t taskIndex) (refs []comms.DatasetRef) {
	ins, _ := m.graph.Inputs(t)
	for _, in := range ins {
		for _, s := range in.Sources {
			switch s.Kind {
			case dag.SourceStream:
				for e := range m.counts[outputKey{s.Task, s.Output}] {
					refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: e})
				}
			case dag.SourceGroup:
				slot, _, _ := m.graph.Slot(s.Task)
				for i := range m.attempt {
					if at, _, ok := m.graph.Slot(i); ok && at == slot {
						refs = append(refs, comms.DatasetRef{Task: i, Output: s.Output})
					}
				}
			default:
				refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
			}
		}
	}
	return refs
}

// again has a task run once more, and those before it whose outputs are gone.
func (m *master) again(t taskIndex) {
	if m.ends[t] != comms.OutcomeDone {
		return
	}
	delete(m.ends, t)
	m.attempt[t]++
	m.reruns++
	if a := m.ownerOf(t); m.dead[a] {
		m.owner[t] = m.living()
	}
	m.n.forget(m.job, t, m.attempt[t])
	for o := range m.graph.Group(t).Outputs {
		for ref := range m.data {
			if ref.Task == t && ref.Output == uint32(o) {
				delete(m.data, ref) // the new attempt makes it anew
			}
		}
	}
	for _, ref := range m.inputs(t) {
		if _, ok := m.data[ref]; !ok {
			m.again(ref.Task)
		}
	}
}

func (m *master) living() int {
	for a := range m.n.worlds {
		if !m.dead[a] {
			return a
		}
	}
	return -1
}

// act begins a new epoch when something was lost.
func (m *master) act() {
	if len(m.lost) == 0 || m.moving {
		return
	}
	lost := m.lost
	m.lost = nil
	for _, ref := range lost {
		if _, ok := m.data[ref]; !ok && m.needed(ref) {
			m.again(ref.Task)
		}
	}
	m.assign()
}

// kill loses an agent: what it had not ended goes to another.
func (m *master) kill(a int) {
	m.dead[a] = true
	m.n.kill(a)
	to := m.living()
	for _, t := range m.tasks() {
		if m.ownerOf(t) != a || m.ends[t] != 0 {
			continue
		}
		if int(t) < m.graph.NumTasks() {
			m.owner[t] = to
		}
		m.attempt[t]++
		m.n.forget(m.job, t, m.attempt[t])
	}
	var outputs []taskIndex
	for _, ref := range sortedRefs(m.data) {
		k := m.data[ref]
		if k.at == a && k.desc.Place.Kind != comms.PlaceInline && m.keep.has(m.graph, ref) {
			outputs = append(outputs, ref.Task)
		}
		if k.at == a && k.desc.Place.Kind != comms.PlaceInline {
			delete(m.data, ref)
		} else if k.at == a {
			m.data[ref] = kept{to, k.desc}
		}
	}
	for _, t := range outputs {
		m.again(t)
	}
	m.lost = nil // those who still miss something say so at the new epoch
	m.assign()
}

// assign tells all agents who has what from now on.
func (m *master) assign() {
	m.moving = true
	defer func() { m.moving = false }()
	m.epoch++
	all := map[int]*comms.Assign{}
	frags := map[int]*comms.Assignment{}
	for a := range m.n.worlds {
		if !m.dead[a] {
			all[a] = &comms.Assign{Job: m.job, Epoch: m.epoch, Run: []comms.Range{}}
			frags[a] = &comms.Assignment{Agent: agentName(a), Incarnation: 1, Addresses: []string{"tcp://" + agentName(a)}}
		}
	}
	for _, t := range m.tasks() {
		if how := m.ends[t]; how != 0 {
			for _, own := range all {
				own.Ended = append(own.Ended, comms.Ended{First: t, Last: t, How: how})
			}
			continue
		}
		a := m.ownerOf(t)
		if m.dead[a] { // of a generator that has ended there
			a = m.living()
			m.owner[t] = a
		}
		r := comms.Range{First: t, Last: t}
		all[a].Run, all[a].Attempts = append(all[a].Run, r), append(all[a].Attempts, m.attempt[t])
		frags[a].Run = append(frags[a].Run, r)
	}
	for _, ref := range sortedRefs(m.data) {
		k := m.data[ref]
		if !m.needed(ref) {
			delete(m.data, ref)
			continue
		}
		if m.ends[ref.Task] == 0 {
			continue
		}
		for a, own := range all {
			d := k.desc
			if d.Place.Kind != comms.PlaceInline && a != k.at {
				d.Place = comms.Place{Kind: comms.PlaceAgent, Where: agentName(k.at)}
			}
			own.Datasets = append(own.Datasets, d)
		}
	}
	for _, k := range sortedOutputs(m.counts) {
		if how := m.ends[k.task]; how != 0 {
			for _, own := range all {
				own.Ends = append(own.Ends, comms.StreamEnd{Task: k.task, Output: k.output, Count: m.counts[k], Failed: how != comms.OutcomeDone})
			}
		}
	}
	for a, w := range m.n.worlds {
		if m.dead[a] {
			continue
		}
		for b := range m.n.worlds {
			if b != a && !m.dead[b] {
				all[a].Peers = append(all[a].Peers, *frags[b])
			}
		}
		w.drained[m.job] = 0
		w.step(FromController{Msg: again(m.n.t, all[a]), Graph: m.graph})
		for range m.n.pick(20, "between assigns") {
			m.n.turn()
		}
	}
}

func sortedOutputs(m map[outputKey]uint64) (keys []outputKey) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b outputKey) int {
		return comms.DatasetRef{Task: a.task, Output: a.output}.Compare(comms.DatasetRef{Task: b.task, Output: b.output})
	})
	return keys
}

// forget lets a task end once more: events of lower attempts count no more.
func (n *network) forget(job comms.JobID, t taskIndex, attempt uint32) {
	id := comms.TaskID{Job: job, Index: t}
	for _, w := range n.worlds {
		delete(w.done, id)
		delete(w.ends, id)
		w.fence[id] = attempt
	}
}

// kill takes an agent out of the network.
func (n *network) kill(a int) {
	w := n.worlds[a]
	w.gone = true
	for b, other := range n.worlds {
		p := pairOf(a, b)
		if b != a && n.up[p] {
			n.up[p] = false
			other.dropPeerUps(agentName(a))
			delete(n.queues, [2]int{a, b})
			delete(n.queues, [2]int{b, a})
			if !other.gone {
				other.step(PeerDown{Agent: agentName(a), Over: true})
			}
		}
	}
	n.moves = slices.DeleteFunc(n.moves, func(m *move) bool { return m.to == w })
	for _, m := range n.moves {
		if agentAt(m.pull.From[m.from]) == a {
			m.failed, m.ready = "connection refused", false
		}
	}
	w.inbox, w.workers, w.timer = nil, nil, time.Time{}
}
