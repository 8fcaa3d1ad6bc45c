//go:build linux

package agent

// shutdown ends all executors and waits until the core has heard of their deaths.
func (l *loop) shutdown() error {
	l.stopping = true
	for _, ex := range l.executors {
		ex.killed = true
		if ex.proc != nil {
			ex.proc.Kill()
		}
	}
	var items, spare []item
	for len(l.executors) > 0 {
		<-l.agent.in.wake
		items, spare = l.agent.in.take(spare), items
		for _, it := range items {
			l.handle(it)
		}
		l.flush()
	}
	return nil
}
