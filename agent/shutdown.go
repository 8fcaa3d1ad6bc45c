//go:build linux

package agent

import "sync"

// shutdown ends all executors, waits until the core has heard of their deaths,
// and writes to disk what should outlive the agent.
func (l *loop) shutdown() error {
	l.stopping = true
	l.expel()
	for _, ex := range l.executors {
		ex.killed = true
		if ex.proc != nil {
			ex.proc.Kill()
		}
	}
	for len(l.executors) > 0 {
		<-l.agent.in.Woken()
		l.taken, l.spare = l.agent.in.Take(l.spare), l.taken
		for _, it := range l.taken {
			l.handle(it)
		}
		l.flush()
	}
	// Work that the lanes still do came before; it ends first.
	var idle sync.WaitGroup
	for _, lane := range []*lane{&l.agent.segmentLane, &l.agent.spillLane} {
		idle.Add(1)
		lane.do(idle.Done)
	}
	idle.Wait()
	return l.keep()
}
