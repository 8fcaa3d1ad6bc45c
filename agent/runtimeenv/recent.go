package runtimeenv

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// A program that submits job after job asks for the same environment each time. To look
// at interpreters and folders anew takes a third of a millisecond, for which the
// first task waits; so what was found a moment ago holds, unless a file has changed.
const (
	holds     = time.Second            // an interpreter that comes or goes is seen after this
	atRest    = 100 * time.Millisecond // a file that changed later may change again without another time of change
	remembers = 32                     // environments
)

// recent is what Prepare found lately. Its methods may be called by several goroutines.
type recent struct {
	now func() time.Time // nil: time.Now

	mu    sync.Mutex
	found []finding // the oldest first
}

// question is what is asked for. The environment is not changed afterwards.
type question struct {
	env   dag.Environment
	files string // that it is made of, as filesOf tells
	known bool   // files says all: an answer can be remembered
}

type finding struct {
	question
	act Activation
	at  time.Time
}

// filesOf tells which files of this host env is made of, and whether that says all: files
// that have not just changed, and packages, which are named by content. Folders, and what
// other programs know, would have to be looked at anew.
func filesOf(env *dag.Environment, now time.Time) (string, bool) {
	if env.Go != "" || env.Kind() == "binary" || env.Container != nil || len(env.Plugins) > 0 || env.Python != nil && env.Python.Wheels != "" {
		return "", false
	}
	var all strings.Builder
	for _, path := range pathsOf(env) {
		if _, ok := dag.ParsePackage(path); ok {
			continue
		}
		info, err := os.Stat(absoluteIn(env.Source, path))
		if err != nil || !info.Mode().IsRegular() {
			return "", false
		}
		text, changed, ok := stamp(info)
		if !ok || now.Sub(changed) < atRest {
			return "", false
		}
		all.WriteString(text)
	}
	return all.String(), true
}

// packaged tells whether env names no file of this host.
func packaged(env *dag.Environment) bool {
	return !slices.ContainsFunc(pathsOf(env), func(path string) bool { _, ok := dag.ParsePackage(path); return !ok })
}

// pathsOf lists the files, folders and packages from which processes of env import and where they start.
func pathsOf(env *dag.Environment) []string {
	if env.WorkingDir == "" {
		return env.PyModules
	}
	return append(slices.Clip(env.PyModules), env.WorkingDir)
}

// ask looks at the files that env is made of.
func (r *recent) ask(env dag.Environment) question {
	files, known := filesOf(&env, r.clock())
	return question{env, files, known}
}

// find returns what was found for a question a moment ago.
func (r *recent) find(q question) (Activation, bool) {
	if !q.known {
		return Activation{}, false
	}
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	stale := 0
	for stale < len(r.found) && now.Sub(r.found[stale].at) > holds {
		stale++
	}
	r.found = slices.Delete(r.found, 0, stale)
	for i := range r.found {
		if f := &r.found[i]; f.files == q.files && reflect.DeepEqual(f.env, q.env) {
			return f.act, true
		}
	}
	return Activation{}, false
}

// note remembers what was found for a question that was asked before. The
// Activation is not changed afterwards.
func (r *recent) note(q question, act Activation) {
	if !q.known {
		return
	}
	act.Built = false
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.found) == remembers {
		r.found = slices.Delete(r.found, 0, 1)
	}
	r.found = append(r.found, finding{q, act, r.clock()})
}

func (r *recent) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now()
}
