package runtimeenv

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// A program that submits job after job asks for the same environment each time. To look
// at interpreters and folders anew takes a third of a millisecond, for which the
// first task waits; so what was found a moment ago holds.
const (
	holds     = time.Second // an interpreter that comes or goes is seen after this
	remembers = 32          // environments
)

// recent is what Prepare found lately. Its methods may be called by several goroutines.
type recent struct {
	mu    sync.Mutex
	found []finding // the oldest first
}

type finding struct {
	env dag.Environment
	act Activation
	at  time.Time
}

// settled tells whether env names what it is made of by content and version alone. What
// lies in a folder of the host may have been edited since the last look.
func settled(env *dag.Environment) bool {
	paths := env.PyModules
	if env.WorkingDir != "" {
		paths = append(slices.Clip(paths), env.WorkingDir)
	}
	for _, p := range paths {
		if _, ok := dag.ParsePackage(p); !ok {
			return false
		}
	}
	return env.Go == "" && env.Binary == "" && env.Container == nil && len(env.Plugins) == 0 &&
		(env.Python == nil || env.Python.Wheels == "")
}

// look returns what was found for env, if that holds still.
func (r *recent) look(env *dag.Environment) (Activation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stale := 0
	for stale < len(r.found) && time.Since(r.found[stale].at) > holds {
		stale++
	}
	r.found = slices.Delete(r.found, 0, stale)
	for i := range r.found {
		if f := &r.found[i]; f.env.Name == env.Name && reflect.DeepEqual(f.env, *env) {
			act := f.act
			act.Built = false
			return act, true
		}
	}
	return Activation{}, false
}

// note remembers what was found for env. Nobody changes env or act afterwards.
func (r *recent) note(env dag.Environment, act Activation) {
	if !settled(&env) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.found) == remembers {
		r.found = slices.Delete(r.found, 0, 1)
	}
	r.found = append(r.found, finding{env, act, time.Now()})
}
