package executor

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// A process that dies takes the state of its actors along. Those that may be restarted get another process:
//
//	it dies ──▶ fallen ──▶ another call of cascade-actors ──▶ ActorCall{Class, Life{State}} ──▶ the calls that are due again
//
// The states that are saved, and the calls since, are kept where the calls are made: when that is lost no caller is left.

// Delivery is how often a call runs whose actor is restarted.
type Delivery int

// The modes.
const (
	AtMostOnce  Delivery = iota // open calls fail with ErrActorRestarted
	AtLeastOnce                 // open calls run again
	ExactlyOnce                 // the calls since the state was saved run again, and each is answered once
)

// ActorLife is how an actor lives whose process dies.
type ActorLife struct {
	Restarts int      // how often it is restarted; 0: not at all
	Delivery Delivery // of calls
	Every    int      // so many calls: then its state is saved; 0: it is not
}

// usualRestarts and usualEvery are those of an actor that says how calls are delivered, and no more.
const (
	usualRestarts = 3
	usualEvery    = 100
)

// mostUnsaved bounds the arguments of the calls behind a state that is saved.
const mostUnsaved = 16 << 20

// restartable is an actor whose state can be saved and restored.
type restartable interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// plan completes how an actor of the class is to live.
func (c *Class) plan(o *ActorLife) error {
	if o.Delivery != AtMostOnce && o.Restarts == 0 {
		o.Restarts = usualRestarts
	}
	if o.Delivery == ExactlyOnce && o.Every == 0 {
		o.Every = usualEvery
	}
	if o.Every == 0 {
		return nil
	}
	if o.Restarts == 0 {
		return errors.New("SaveEvery is for an actor that is restarted: add Restarts, AtLeastOnce or ExactlyOnce")
	}
	if typ := c.Outputs[0].Type; !typ.Implements(reflect.TypeFor[restartable]()) {
		return fmt.Errorf("its state is to be saved, and %v has no methods MarshalBinary() ([]byte, error) and UnmarshalBinary([]byte) error", typ)
	}
	return nil
}

// actorLives is what the caller keeps of an actor that may be restarted. actorProcess.mu guards it.
type actorLives struct {
	ActorLife
	spent   int               // restarts
	made    comms.ActorCall   // its making
	state   *comms.ActorState // the newest that was saved; nil: it begins with its constructor
	reached uint64            // number of the call behind which that was; 0: it is not made yet
	log     []comms.ActorCall // exactly once: the calls behind it, oldest first
}

// sends notes a call that leaves for the first time, and completes it.
func (l *actorLives) sends(it *comms.ActorCall) {
	if l.Restarts == 0 {
		return
	}
	if it.Class != "" {
		it.Life = &comms.ActorLife{Every: uint64(l.Every), Alone: l.Delivery == ExactlyOnce}
		l.made = *it
	} else if l.Delivery == ExactlyOnce {
		l.log = append(l.log, *it)
	}
}

// saved notes a state. The calls before it need not run again.
func (l *actorLives) saved(number uint64, state *comms.ActorState) {
	if number <= l.reached {
		return // of the process before, or a repeat
	}
	l.state, l.reached = state, number
	n := 0
	for n < len(l.log) && l.log[n].Name.Number <= number {
		n++
	}
	clear(l.log[:n]) // their arguments
	l.log = l.log[n:]
}

// restart prepares an actor whose process has died for another: its open calls are then those that the new one is to get.
// It returns the calls that fail. With unsent the dead one got none of them. actorProcess.mu is held.
func (a *actorState) restart(unsent bool) (failed []*actorCall) {
	l := &a.lives
	first, open := a.open.First()
	if unsent || a.last == 0 || l.Delivery != AtMostOnce && open && first == 1 {
		return nil // all that it was told is open
	}
	from := a.last
	switch l.Delivery {
	case AtMostOnce:
		failed = a.takeOpen()
	case AtLeastOnce:
		if open && a.open.Get(first).item.Class != "" {
			from = first // the one before has not said that the actor is made
		} else if open {
			from = first - 1
		}
	case ExactlyOnce:
		from = max(l.reached, 1)
		for _, it := range l.log {
			if a.open.Get(it.Name.Number) == nil {
				a.open.Set(it.Name.Number, &actorCall{actor: a, item: it}) // it was answered
			}
		}
	}
	it := l.made
	it.Name.Number = from
	it.Life = &comms.ActorLife{Every: it.Life.Every, Alone: it.Life.Alone, State: l.state}
	a.open.Set(from, &actorCall{actor: a, item: it})
	return failed
}

// takeOpen returns the calls that are not answered, which no longer are. actorProcess.mu is held.
func (a *actorState) takeOpen() (all []*actorCall) {
	for _, m := range a.open.All() {
		all = append(all, m)
	}
	a.open = seqmap.Map[*actorCall]{}
	return all
}

// fallen is what follows when the process is dead, or cannot be linked to: actors that may be restarted get another.
func (p *actorProcess) fallen(text string, cause *comms.TaskError) {
	died := p.death(text, cause)
	goOn := false
	var failed, lost []*actorCall
	p.mu.Lock()
	p.batch, p.bytes, p.drops = nil, 0, nil
	clear(p.got)
	if p.failed == nil && p.of.run.ctx.Err() == nil {
		p.open = 0
		for _, a := range p.lines {
			l := &a.lives
			switch {
			case a.dead != nil || a.left && a.open.Len() == 0:
			case a.killed != "":
				t := *died
				t.Message = "the actor has ended: it was killed: " + a.killed
				a.dead = &t
			case l.spent < l.Restarts:
				l.spent++
				failed = append(failed, a.restart(p.unsent)...)
				p.open += a.open.Len()
				goOn = true
				continue
			case l.Restarts > 0:
				t := *died
				t.Message += fmt.Sprintf("; it was restarted %d times, which is all that it may be", l.Restarts)
				a.dead = &t
			default:
				a.dead = died
			}
			lost = append(lost, a.takeOpen()...)
			p.ends(a)
			delete(p.lines, a.handle)
		}
	}
	old := p.row
	p.unsent = true
	p.mu.Unlock()
	if !goOn {
		finish(lost, nil)
		p.end(text, cause)
		return
	}
	restarted := *died
	restarted.Codes = []string{comms.CodeActorRestarted}
	restarted.Message = "the actor was restarted while the call was open, which may have run: " + text
	finish(failed, &restarted)
	finish(lost, nil)
	Cancel("its process has died", &old.first)
	row, err := p.of.start(p.options)
	if err != nil {
		p.end(fmt.Sprintf("%s; another process was not started: %v", text, err), nil)
		return
	}
	p.mu.Lock()
	p.row, p.addr = row, ""
	p.mu.Unlock()
	p.connect()
}

// finish has calls fail, oldest first; without an error with that of their actors.
func finish(all []*actorCall, t *comms.TaskError) {
	slices.SortFunc(all, func(a, b *actorCall) int { return cmp.Compare(a.item.Name.Number, b.item.Name.Number) })
	for _, m := range all {
		if m.state != nil {
			m.end(&comms.CallEnd{Error: m.failed(cmp.Or(t, m.actor.dead))})
		}
	}
}

// death is the error of actors whose process has ended.
func (p *actorProcess) death(text string, cause *comms.TaskError) *comms.TaskError {
	t := &comms.TaskError{Kind: comms.ErrorCrash, Message: "the actor has ended: " + text, Codes: []string{comms.CodeActorDead},
		Agent: p.of.run.exec.welcome.Agent, Task: ActorsFunction}
	if cause != nil {
		t.Kind, t.Codes = cause.Kind, append(slices.Clone(cause.Codes), comms.CodeActorDead)
	}
	return t
}
