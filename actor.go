package cascade

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/executor"
)

// Actor is a handle of an actor: a value of type T that lives in a process of the cluster, and whose methods are called
// with futures. Copies of a handle are the same handle. When no copy is left the actor ends, behind the calls that were made.
type Actor[T any] struct{ a *executor.Actor }

// Class is a registered kind of actor, of any constructor.
type Class[T any] interface {
	class(*T) *executor.Class
}

// EncodeMsgpack writes a handle within a value that a task is given, returns or puts. The actor goes on as long as that
// value does, also when the task or session that has made it does not.
func (a Actor[T]) EncodeMsgpack(enc *msgpack.Encoder) error { return executor.EncodeActor(enc, a.a) }

// DecodeMsgpack reads a handle within a value. It is valid until the task or session ends that reads it.
func (a *Actor[T]) DecodeMsgpack(dec *msgpack.Decoder) (err error) {
	a.a, err = executor.DecodeActor(dec, reflect.TypeFor[T]())
	return err
}

// Kill ends the actor at once. Calls that have not ended fail with ErrActorDead, as do later ones.
func (a Actor[T]) Kill(why string) { a.a.Kill(why) }

// ErrActorDead is in the chain of errors of calls whose actor has ended: the call did not run, or it is not known
// whether it did.
var ErrActorDead = executor.ErrActorDead

// ExitActor ends the actor whose method has ctx, when that returns: this call is answered, and those behind it
// fail with ErrActorDead.
func ExitActor(ctx context.Context) error { return executor.ExitActor(ctx) }

// ActorOption is what the making of an actor may say besides its arguments: CPU, Memory, GPU and Resource, In, OwnProcess,
// Restarts, SaveEvery, AtLeastOnce and ExactlyOnce.
type ActorOption interface{ actor(*executor.ActorOptions) }

type actorOption func(*executor.ActorOptions)

func (set actorOption) actor(o *executor.ActorOptions) { set(o) }

// OwnProcess keeps an actor apart from others: a crash of one does not end the other.
func OwnProcess() ActorOption { return actorOption(func(o *executor.ActorOptions) { o.Own = true }) }

// Restarts has an actor restarted whose process dies, n times at most: its constructor runs again, with the same arguments,
// and its state is restored if it was saved (SaveEvery). Calls that were open fail with ErrActorRestarted; those that
// follow go to the actor that was restarted. Without Restarts, AtLeastOnce and ExactlyOnce an actor ends with its process.
func Restarts(n int) ActorOption {
	return actorOption(func(o *executor.ActorOptions) {
		if n < 1 {
			o.Err = errors.Join(o.Err, fmt.Errorf("Restarts(%d): want 1 or more", n))
		}
		o.Life.Restarts = n
	})
}

// SaveEvery has the state of an actor saved behind every n-th call, or more often if their arguments are large. *T has
// MarshalBinary and UnmarshalBinary, which return and take it. A restart without SaveEvery begins with what the
// constructor makes.
func SaveEvery(n int) ActorOption {
	return actorOption(func(o *executor.ActorOptions) {
		if n < 1 {
			o.Err = errors.Join(o.Err, fmt.Errorf("SaveEvery(%d): want 1 or more", n))
		}
		o.Life.Every = n
	})
}

// AtLeastOnce has calls that were open run again when their actor is restarted. A call that had run may so run twice;
// those that were answered since the state was saved are not repeated. It implies Restarts(3).
func AtLeastOnce() ActorOption {
	return actorOption(func(o *executor.ActorOptions) { o.Life.Delivery = executor.AtLeastOnce })
}

// ExactlyOnce has an actor that is restarted be as if its process had not died: its state is restored, the calls since
// then run again in their order, and each call is answered once. So what a method does depends on the actor's state and its
// arguments alone: it makes no calls, and reads no clock and no random numbers. An effect outside the actor,
// such as a file that it writes, may happen twice. It implies Restarts(3) and SaveEvery(100).
func ExactlyOnce() ActorOption {
	return actorOption(func(o *executor.ActorOptions) { o.Life.Delivery = executor.ExactlyOnce })
}

// ErrActorRestarted is in the chain of errors of calls that were open when their actor was restarted: they may have run.
var ErrActorRestarted = executor.ErrActorRestarted

func (set TaskOption) actor(o *executor.ActorOptions) {
	var call executor.CallOptions
	call.Resources, call.Environment = o.Resources, o.Environment
	set.option(&call)
	o.Resources, o.Environment, o.Err = call.Resources, call.Environment, errors.Join(o.Err, call.Err)
	if call.Retries != 0 || call.Timeout != 0 || call.Priority != 0 {
		o.Err = errors.Join(o.Err, errors.New("an option is of tasks and calls only: an actor takes resources, In and OwnProcess"))
	}
}

func actorOptions(opts []ActorOption) executor.ActorOptions {
	var o executor.ActorOptions
	for _, set := range opts {
		set.actor(&o)
	}
	return o
}
