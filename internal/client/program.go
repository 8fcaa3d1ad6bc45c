package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Binary is this program as it was built for hosts of a platform.
type Binary struct{ Platform, Path string }

// program is this program as an environment of jobs: what agents of other hosts run its
// functions with. It is made when the first job needs it, and is the same from then on.
type program struct {
	mu    sync.Mutex
	env   dag.Environment // without a name as long as it is not made
	packs []*runtimeenv.Pack
}

// withProgram returns the graph with its functions in an environment of this program, and the
// packages of that; the graph itself when this program is not to be sent, or runs none of them.
func (c *Conn) withProgram(g *dag.Graph) (*dag.Graph, []*runtimeenv.Pack, error) {
	if c.opts.Local || !c.opts.SendProgram || len(ownFunctions(g)) == 0 {
		return g, nil, nil
	}
	if !slices.Contains(c.ctrl.current().Peer().Features, comms.FeaturePlatforms) {
		return nil, nil, errors.New("send this program: the controller is of a version that knows no binaries for platforms: update it, or dial without WithProgram")
	}
	p := &c.program
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.env.Name == "" {
		env, packs, err := packProgram(c.opts.Programs)
		if err != nil {
			return nil, nil, fmt.Errorf("send this program: %w", err)
		}
		p.env, p.packs = env, packs
	}
	out, err := c.packed.inProgram(g, p.env)
	return out, p.packs, err
}

// packProgram makes an environment of programs, and of the one that runs unless there is one
// for its platform among them.
func packProgram(all []Binary) (dag.Environment, []*runtimeenv.Pack, error) {
	env := dag.Environment{Name: dag.ProgramEnvironment}
	all = slices.Clone(all)
	if !slices.ContainsFunc(all, func(b Binary) bool { return b.Platform == runtimeenv.ThisPlatform }) {
		switch {
		case runtime.GOOS == "linux":
			all = append(all, Binary{runtimeenv.ThisPlatform, runningProgram})
		case len(all) == 0:
			return env, nil, fmt.Errorf("it is one for %s, and agents run on linux: build it with GOOS=linux, and dial WithBinary(\"linux/amd64\", PATH)", runtimeenv.ThisPlatform)
		}
	}
	name := "program"
	if self, err := os.Executable(); err == nil {
		name = filepath.Base(self)
	}
	var packs []*runtimeenv.Pack
	for _, b := range all {
		if err := dag.CheckPlatform(b.Platform); err != nil {
			return env, nil, err
		}
		pack, platform, err := runtimeenv.PackProgram(b.Path, name)
		switch {
		case err != nil:
			return env, nil, fmt.Errorf("the binary for %s: %w", b.Platform, err)
		case platform != "" && platform != b.Platform:
			return env, nil, fmt.Errorf("the binary for %s: %s was built for %s", b.Platform, b.Path, platform)
		case slices.ContainsFunc(env.Binaries, func(o dag.Binary) bool { return o.Platform == b.Platform }):
			return env, nil, fmt.Errorf("two binaries for %s", b.Platform)
		}
		env.Binaries, packs = append(env.Binaries, dag.Binary{Platform: b.Platform, Path: pack.String()}), append(packs, pack)
	}
	slices.SortFunc(env.Binaries, func(a, b dag.Binary) int { return strings.Compare(a.Platform, b.Platform) })
	return env, packs, nil
}

// forget makes the environment anew for the next job: its files have changed.
func (p *program) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env, p.packs = dag.Environment{}, nil
}

// runningProgram is the file of the program that runs, also when another lies in its place by now.
const runningProgram = "/proc/self/exe"

// inProgram returns a graph with its own functions in an environment, the same as the last time.
func (ps *packings) inProgram(g *dag.Graph, env dag.Environment) (*dag.Graph, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, s := range ps.programs {
		if s.before == g && slices.Equal(s.graph.Environments[len(g.Environments)].Binaries, env.Binaries) {
			return s.graph, nil
		}
	}
	out, err := g.WithProgram(env)
	if err != nil {
		return nil, err
	}
	ps.programs.add(sealedGraph{g, out})
	return out, nil
}
