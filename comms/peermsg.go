package comms

import "github.com/cascade-run/cascade/dag"

// Messages between agents that run assignments of one job. They pass no
// controller: a consumer on another host starts as soon as its inputs were announced
// and fetched. They are idempotent.

// Assignment says which tasks of a job another agent runs, and how to reach it.
type Assignment struct {
	Agent       string   // its name
	Incarnation uint64   // of its process when the controller assigned the tasks
	Addresses   []string // where agents reach it
	Run         []Range  // its tasks, as in its own Assign
}

// Notice announces outputs and ends of tasks of the sender that the receiver's
// tasks read. Datasets of up to the inline limit bring their bytes, others have a
// Place of kind agent: the receiver fetches them from there. After a link that was
// not resumed everything that the receiver may still need is announced again.
type Notice struct {
	Job            JobID       // which job
	JobIncarnation uint64      // of the job, as in Assign
	Epoch          uint64      // of the sender's Assign: a receiver at a lower one keeps the notice until its own comes
	Datasets       []Desc      // published
	Ends           []StreamEnd // of streams
	Ended          []Ended     // tasks, sorted; a dataset of theirs that came neither before nor with this never comes
}

// Released tells the producer's agent that tasks of the sender need datasets no
// more: the ends of all their readers there are committed. The sender keeps a copy
// of its own as long as it likes.
type Released struct {
	Job            JobID           // which job
	JobIncarnation uint64          // of the job, as in Assign
	Epoch          uint64          // of the sender's Assign
	Data           []ReleasedRange // datasets that are needed no more there
}

// ReleasedRange is elements First to Last of one output, both included.
type ReleasedRange struct {
	Task        dag.TaskIndex // the producer
	Output      uint32        // which of its outputs
	First, Last uint64        // elements, both included; 0 of an output that is one dataset
}

// Serving is the first message of each side on a link between agents, also on one
// that was resumed. Datasets travel on other links, to that address.
type Serving struct {
	At string // as ParseAddress reads it; empty: it serves no datasets
}

// Type returns TypeServing.
func (*Serving) Type() Type { return TypeServing }

// Type returns TypeNotice.
func (*Notice) Type() Type { return TypeNotice }

// Type returns TypeReleased.
func (*Released) Type() Type { return TypeReleased }

func (f *Assignment) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		String(c, &f.Agent)
		Uint(c, &f.Incarnation)
		Slice(c, &f.Addresses, String[string])
		Slice(c, &f.Run, func(c *Coder, r *Range) { r.code(c) })
	})
}

func (m *Notice) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		Slice(c, &m.Datasets, func(c *Coder, d *Desc) { d.code(c) })
		Slice(c, &m.Ends, func(c *Coder, e *StreamEnd) { e.code(c) })
		Slice(c, &m.Ended, func(c *Coder, e *Ended) { e.code(c) })
	})
}

func (m *Released) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		Slice(c, &m.Data, func(c *Coder, r *ReleasedRange) {
			c.Struct(4, func(c *Coder) {
				Uint(c, &r.Task)
				Uint(c, &r.Output)
				Uint(c, &r.First)
				Uint(c, &r.Last)
			})
		})
	})
}

func (m *Serving) code(c *Coder) {
	c.Struct(1, func(c *Coder) { String(c, &m.At) })
}
