//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
)

// foreign is a platform of which this host is not. Its agent is one of this host, and what it
// is given to start is a script, which runs here too.
const foreign = "linux/s390x"

// otherBuild in the environment of this program makes it another build: one function takes
// and returns something else, one is not there.
const otherBuild = "CASCADE_TEST_OTHER_BUILD"

var (
	program  = cascade.Func1("t_program", programOf, "with -> path")
	building = buildFunctions()
)

// programOf says which file the process is that runs it.
func programOf(context.Context, how) (string, error) { return os.Executable() }

func oneBuild(context.Context, size) (int, error) { return 1, nil }

func onlyThere(context.Context, size) (int, error) { return 1, nil }

func anotherBuild(context.Context, how) (string, error) { return "", nil }

// built are functions that not all builds have alike.
type built struct {
	same, only cascade.Function1x1[size, int]
}

func buildFunctions() (b built) {
	if os.Getenv(otherBuild) != "" {
		cascade.Func1("t_build", anotherBuild, "with -> word")
		return b
	}
	return built{cascade.Func1("t_build", oneBuild, "with -> n"), cascade.Func1("t_only", onlyThere, "with -> n")}
}

// twoPlatforms starts a controller and two agents, whose own executor runs nothing: n1 is of this
// host's platform and has the resource one, n2 is of the foreign one and has two.
func twoPlatforms(t *testing.T) (address string) {
	t.Helper()
	if runtimeenv.ThisPlatform == foreign {
		t.Skip("this host is of the platform that the test takes for another")
	}
	dir, err := os.MkdirTemp("", "platforms-") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address = "ipc://" + filepath.Join(dir, "c.sock")
	c, err := controller.New(controller.Config{Address: address, State: filepath.Join(dir, "c"), Build: cascade.Version(), Spread: true})
	t.Cleanup(part(t, c, err))
	for name, has := range map[string]agent.Config{
		"n1": {Custom: []comms.Amount{{Name: "one", N: 1000}}},
		"n2": {Custom: []comms.Amount{{Name: "two", N: 1000}}, Platform: foreign},
	} {
		has.Name, has.Controller, has.State, has.Cache = name, address, filepath.Join(dir, name), filepath.Join(dir, name+"-cache")
		has.Runtime, has.Store, has.Warm, has.Executor = filepath.Join(dir, name+"-run"), 64<<20, -1, []string{"/bin/false"}
		a, err := agent.New(has)
		t.Cleanup(part(t, a, err))
	}
	client, err := cascade.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ready(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	return address
}

// script writes a program for the foreign platform: this one, with a variable set.
func script(t *testing.T, variable string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+variable+" exec '"+self+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func dial(t *testing.T, address string, opts ...cascade.Option) *cascade.Client {
	t.Helper()
	c, err := cascade.Dial(t.Context(), address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A program is sent with its jobs: each agent runs its functions in the binary of the
// agent's platform.
func TestProgramIsSent(t *testing.T) {
	address := twoPlatforms(t)
	client := dial(t, address, cascade.WithBinary(foreign, script(t, "")))
	run := func(client *cascade.Client, resources ...string) (at, unserved []string) {
		g := cascade.NewGraph("where")
		var refs []cascade.Ref[string]
		for _, name := range resources {
			ref := program.Add(g, name, cascade.With(how{}), cascade.Resource(name, 1))
			g.Output(ref, "")
			refs = append(refs, ref)
		}
		graph, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		job, err := client.Submit(t.Context(), graph)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs {
			path, err := cascade.Result(t.Context(), job, ref)
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, path)
		}
		if unserved, err = admin.Unserved(t.Context(), client, job); err != nil {
			t.Error(err)
		}
		return at, unserved
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at, unserved := run(client, "one", "two")
	if len(unserved) > 0 {
		t.Errorf("with binaries for all there are agents without: %q", unserved)
	}
	if !strings.Contains(at[0], "/n1-cache/") || at[1] != self {
		t.Errorf("the functions ran in %s and %s, not in the copy and the script's program, %s", at[0], at[1], self)
	}
	if again, _ := run(client, "one", "two"); !slices.Equal(again, at) {
		t.Errorf("a second job ran in %s", again)
	}
	_, unserved = run(dial(t, address, cascade.WithProgram()), "one")
	if want := []string{"environment cascade.program has no binary for " + foreign + ": n2"}; !slices.Equal(unserved, want) {
		t.Errorf("with one binary: %q, want %q", unserved, want)
	}
	rows, err := cascade.Rows[comms.AgentRow](t.Context(), client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil || len(rows) != 2 || rows[0].Platform != runtimeenv.ThisPlatform || rows[1].Platform != foreign {
		t.Errorf("agents %+v, %v", rows, err)
	}
}

// What differs is told: no binary for the host that the job needs, no way to run the
// program's functions, or another build of it there.
func TestProgramIsRefused(t *testing.T) {
	address := twoPlatforms(t)
	for _, c := range []struct {
		name, resource string
		opts           []cascade.Option
		want           []string
	}{
		{"no binary", "two", []cascade.Option{cascade.WithProgram()}, []string{
			"task same: no host has enough: it needs two 1 (no host has any; --resource says how much one has); environment cascade.program has no binary for linux/s390x, the platform of n2, which has enough"}},
		{"another build", "two", []cascade.Option{cascade.WithBinary(foreign, script(t, otherBuild+"=1"))}, []string{
			"the submitting program and the executor on agent n2 are of different builds: the program has t_build(with {n int}) -> (n msgpack int), the executor t_build(with {how string?; step int?}) -> (word ",
			"; missing in the executor: t_only"}},
		{"no platform", "two", []cascade.Option{cascade.WithBinary("s390x", "x")}, []string{`send this program: "s390x" is no platform (write SYSTEM/ARCHITECTURE, such as linux/amd64)`}},
		{"no file", "two", []cascade.Option{cascade.WithBinary(foreign, "/not/here")}, []string{"send this program: the binary for linux/s390x: open /not/here: no such file"}},
		{"another's", "two", []cascade.Option{cascade.WithBinary(foreign, "/proc/self/exe")}, []string{"send this program: the binary for linux/s390x: /proc/self/exe was built for " + runtimeenv.ThisPlatform}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dial(t, address, c.opts...)
			g := cascade.NewGraph("refused")
			a := building.same.Add(g, "same", cascade.With(size{}), cascade.Resource(c.resource, 1))
			b := building.only.Add(g, "only", cascade.With(size{}), cascade.Resource(c.resource, 1))
			g.Output(a, "")
			g.Output(b, "")
			graph, err := g.Build()
			if err != nil {
				t.Fatal(err)
			}
			job, err := client.Submit(t.Context(), graph)
			if err == nil {
				_, err = job.Wait(t.Context())
				var failed *cascade.TaskError
				if !errors.As(err, &failed) {
					t.Fatalf("the job ended with %v", err)
				}
				rows, rowsErr := cascade.Rows[comms.TaskRow](t.Context(), client, comms.QueryTasks, job.ID(), "")
				for _, r := range rows {
					if r.Attempt > 1 {
						t.Errorf("%s was tried again", r.Name)
					}
				}
				if rowsErr != nil {
					t.Error(rowsErr)
				}
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}
