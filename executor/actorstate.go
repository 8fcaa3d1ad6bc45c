package executor

import (
	"bytes"
	"fmt"
	"runtime/debug"

	"github.com/cascade-run/cascade/comms"
)

// restore has an actor go on from a state of one before it, behind its constructor.
func (a *hostedActor) restore() error {
	s, ok := a.self.(restartable)
	if !ok {
		return fmt.Errorf("restore its state: %T has no methods MarshalBinary and UnmarshalBinary in the process that runs it: is it another version?", a.self)
	}
	if err := s.UnmarshalBinary(a.life.State.Bytes); err != nil {
		return fmt.Errorf("restore its state: %w", err)
	}
	a.life.State = nil
	return nil
}

// save adds the state of an actor to the answer of a call behind which it is due.
func (a *hostedActor) save(it *hostedCall, end *comms.ActorEnd) error {
	if a.life.Every == 0 || it.Class != "" {
		return nil
	}
	a.calls++
	a.bytes += it.Size()
	if a.calls < a.life.Every && a.bytes < mostUnsaved {
		return nil
	}
	s, ok := a.self.(restartable)
	if !ok {
		return fmt.Errorf("%T has no methods MarshalBinary and UnmarshalBinary: is it another version?", a.self)
	}
	state, err := marshal(s)
	if err != nil {
		return err
	}
	if len(state) > mostActorCall {
		return fmt.Errorf("it takes %d bytes, and may take %d", len(state), mostActorCall)
	}
	end.State = &comms.ActorState{Bytes: bytes.Clone(state)} // the actor may go on to use it
	a.calls, a.bytes = 0, 0
	return nil
}

// marshal has an actor say its state. A panic of its method is an error of the actor, and none of the call that was answered.
func marshal(s restartable) (state []byte, err error) {
	returned := false
	defer func() {
		if !returned {
			state, err = nil, fmt.Errorf("MarshalBinary panicked: %v\n%s", recover(), debug.Stack())
		}
	}()
	state, err = s.MarshalBinary()
	returned = true
	return state, err
}
