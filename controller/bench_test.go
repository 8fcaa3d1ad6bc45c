package controller

import (
	"context"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// BenchmarkSubmitToResult is one client and one agent that runs a job of one task
// in no time: what the controller and its links cost.
func BenchmarkSubmitToResult(b *testing.B) {
	net := comms.NewInproc()
	c, err := New(Config{Address: "inproc://controller", State: b.TempDir(), Inproc: net, MinFree: 1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	}()
	a := dialAgent(b, net, &fakeAgent{name: "a1"})
	defer a.close()
	p := dialClient(b, net)
	defer p.close()
	graph := parse(b, "job: one\nenvironments: {e: {go: ./e}}\ntasks:\n  a: {run: \"e:F\", out: [x]}\noutputs: [a.x]\n").Encode()
	b.ResetTimer()
	for n := range b.N {
		job := comms.JobID{0: 2, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
		p.say(&comms.Submit{Req: uint64(n), Job: job, Graph: graph, Watch: true})
		expect(p, "result", func(m *comms.Progress) bool { return m.Result && m.Job == job })
	}
}
