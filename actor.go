package cascade

import (
	"context"
	"errors"

	"github.com/cascade-run/cascade/executor"
)

// Actor is a handle of an actor: a value of type T that lives in a process of the cluster, and whose methods are called
// with futures. Copies of a handle are the same handle. When no copy is left the actor ends, behind the calls that were made.
type Actor[T any] struct{ a *executor.Actor }

// Class is a registered kind of actor, of any constructor.
type Class[T any] interface {
	class(*T) *executor.Class
}

// Kill ends the actor at once. Calls that have not ended fail with ErrActorDead, as do later ones.
func (a Actor[T]) Kill(why string) { a.a.Kill(why) }

// ErrActorDead is in the chain of errors of calls whose actor has ended: the call did not run, or it is not known
// whether it did.
var ErrActorDead = executor.ErrActorDead

// ExitActor ends the actor whose method has ctx, when that returns: this call is answered, and those behind it
// fail with ErrActorDead.
func ExitActor(ctx context.Context) error { return executor.ExitActor(ctx) }

// ActorOption is what the making of an actor may say besides its arguments: CPU, Memory, GPU and Resource, In, and
// OwnProcess.
type ActorOption interface{ actor(*executor.ActorOptions) }

type actorOption func(*executor.ActorOptions)

func (set actorOption) actor(o *executor.ActorOptions) { set(o) }

// OwnProcess keeps an actor apart from others: a crash of one does not end the other.
func OwnProcess() ActorOption { return actorOption(func(o *executor.ActorOptions) { o.Own = true }) }

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
