package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// crowd is a controller with agents that are there and jobs, each on one of them.
func crowd(agents, jobs int) (*Core, time.Time) {
	now := time.Unix(1000, 0)
	c := New(Config{Spread: true})
	for i := range agents {
		name := fmt.Sprintf("a%04d", i)
		c.Step(now, LinkUp{Link: LinkID(i + 1), Agent: true, Name: name, Incarnation: 1})
		c.Step(now, Received{LinkID(i + 1), &comms.Register{Agent: name, Incarnation: 1, Total: comms.Resources{CPU: 4000, Memory: int64(i+1) << 20}}})
		c.Step(now, Received{LinkID(i + 1), &comms.Snapshot{Done: true}})
	}
	for i := range jobs {
		j := &job{id: comms.JobID{byte(i >> 8), byte(i)}, stage: stageActive, live: &live{parts: []*part{{agent: fmt.Sprintf("a%04d", i%agents)}}}}
		c.jobs[j.id], c.running[j.id] = j, j
	}
	return c, now
}

// BenchmarkOrders tells each of many agents of a job what the largest of all has: the
// time for each must not grow with their number.
func BenchmarkOrders(b *testing.B) {
	for _, agents := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			c, _ := crowd(agents, 0)
			j := &job{live: &live{request: &comms.Submit{}, parts: make([]*part, agents)}}
			for i := range j.parts {
				j.parts[i] = &part{agent: fmt.Sprintf("a%04d", i)}
			}
			for i := 0; b.Loop(); i++ {
				if k := i % agents; c.order(j, k).Larger == 0 && k < agents-1 {
					b.Fatal("none is larger")
				}
			}
		})
	}
}

// BenchmarkStep is a step in which nothing happens: its time must not grow with the agents.
func BenchmarkStep(b *testing.B) {
	for _, agents := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			c, now := crowd(agents, 0)
			for b.Loop() {
				c.Step(now, Free{})
			}
		})
	}
}

// BenchmarkGiveUp gives up agents that a controller before this one knew and that do not
// come, beside as many jobs: the time for each must not grow with their number.
func BenchmarkGiveUp(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, now := crowd(1, n)
			for b.Loop() {
				b.StopTimer()
				for i := range n {
					c.Step(now, Known{records.Agent{Name: fmt.Sprintf("ghost%04d", i)}})
				}
				now = now.Add(DefaultGrace)
				b.StartTimer()
				c.Step(now, Tick{})
				if len(c.agents) != 1 {
					b.Fatalf("%d agents are left", len(c.agents))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/agent")
		})
	}
}
