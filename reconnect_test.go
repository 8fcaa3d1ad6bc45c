package cascade_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
)

// part runs a controller or an agent until the returned function ends it.
func part(t *testing.T, p interface {
	Run(context.Context) error
	Close() error
}, err error) (end func()) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A client of a controller and an agent that run apart goes on waiting when the
// controller is started again, and the running task goes on meanwhile.
func TestControllerStartsAgain(t *testing.T) {
	dir := t.TempDir()
	sockets := filepath.Join(dir, "run")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	address := "ipc://" + filepath.Join(sockets, "controller.sock")
	startController := func() func() {
		c, err := controller.New(controller.Config{Address: address, State: filepath.Join(dir, "controller"), Build: cascade.Version()})
		return part(t, c, err)
	}
	endController := startController()
	a, err := agent.New(agent.Config{Name: "a1", Controller: address, State: filepath.Join(dir, "agent"), Runtime: sockets, Store: 64 << 20})
	endAgent := part(t, a, err)
	defer endAgent()

	client, err := cascade.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	up, onward := filepath.Join(dir, "up"), filepath.Join(dir, "on")
	mkfifo(t, up)
	mkfifo(t, onward)
	g := cascade.NewGraph("survives")
	wait := g.Command("wait", nil, cascade.CommandSpec{
		Args: []string{"/bin/sh", "-c", "echo up > " + up + "; cat " + onward}, Out: []string{"word"}, Stdout: "word",
	})
	word := wait.Out("word")
	g.Output(word, "")
	graph, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.Submit(t.Context(), graph)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(up); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := job.Wait(t.Context())
		ended <- err
	}()
	endController()
	endController = startController()
	defer func() { endController() }()
	if err := os.WriteFile(onward, []byte("through"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	got, err := cascade.Result(t.Context(), job, word)
	if err != nil || string(got) != "through" {
		t.Errorf("the output is %q, %v", got, err)
	}
	rows, err := cascade.Rows[comms.TaskRow](t.Context(), client, "tasks", job.ID(), "")
	if err != nil || len(rows) != 1 || rows[0].Attempt != 1 {
		t.Errorf("the task ran again: %+v, %v", rows, err)
	}
}
