package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// opened are the called tasks that have not ended, by function.
type opened struct {
	functions map[string]*openCalls
}

// openCalls are the called tasks of one function, of one job or of all, that have not ended. A call that
// runs at another agent than its owner's has two rows: one there, and one of the owner, which says that it is away.
type openCalls struct {
	running, waiting int // there or with their owner
	given            int // of these, those of another agent
	away             int // at their owners
}

func newOpened() *opened { return &opened{functions: map[string]*openCalls{}} }

func (o *opened) add(r *comms.ReferenceRow) {
	if r.Kind != "call" {
		return
	}
	name := placeOf(o.functions, r.Function)
	f := o.functions[name]
	if f == nil {
		f = &openCalls{}
		o.functions[name] = f
	}
	f.add(r)
}

func (f *openCalls) add(r *comms.ReferenceRow) {
	switch r.State {
	case "running":
		f.running++
	case "waiting", "ready":
		f.waiting++
	case "away":
		f.away++
		return
	default:
		return
	}
	if name, ok := strings.CutPrefix(r.Owner, "agent "); ok && !strings.Contains(name, " ") { // else a task there has called it
		f.given++
	}
}

// counts returns how many run and wait. A call that is away and has no row elsewhere is on its way, and waits.
func (f *openCalls) counts() (running, waiting int) {
	return f.running, f.waiting + max(0, f.away-f.given)
}

// references asks agents what they keep of a job that has not ended, and calls f for each row. It
// returns the hosts that were not asked, with the reason.
func (h *Handler) references(ctx context.Context, row *comms.JobRow, f func(*comms.ReferenceRow)) (absent []string, err error) {
	if h.cfg.Alone || row.Ended != "" {
		return []string{}, nil
	}
	var id comms.JobID
	if row.ID != "" {
		if id, err = comms.ParseJobID(row.ID); err != nil {
			return nil, err
		}
	}
	absent, err = h.cfg.Source.References(ctx, id, f)
	if absent == nil {
		absent = []string{}
	}
	return absent, err
}

// memoryState is the state of the topic memory:ID: which values and calls of a job are kept, and by what.
type memoryState struct {
	Row        comms.JobRow         `json:"row"`
	References int                  `json:"references"`
	Hosts      []kept               `json:"hosts"` // those with most bytes first
	Largest    []comms.ReferenceRow `json:"largest"`
	Absent     []string             `json:"absent"` // hosts that do not tell what they keep
}

// kept is what one host keeps, in bytes.
type kept struct {
	Host       string `json:"host"`
	References int    `json:"references"`
	Shm        uint64 `json:"shm"`
	Disk       uint64 `json:"disk"`
	Message    uint64 `json:"message"`
	Arguments  uint64 `json:"arguments"`
}

func (k *kept) bytes() uint64 { return k.Shm + k.Disk + k.Message + k.Arguments }

// memory returns what makes the states of the topic memory:ID.
func (h *Handler) memory(id comms.JobID) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		row, err := h.jobRow(ctx, id)
		if err != nil {
			return nil, err
		}
		s := &memoryState{Row: row, Largest: []comms.ReferenceRow{}}
		hosts := map[string]*kept{}
		s.Absent, err = h.references(ctx, &row, func(r *comms.ReferenceRow) {
			s.References++
			k := hosts[r.Agent]
			if k == nil {
				k = &kept{Host: r.Agent}
				hosts[r.Agent] = k
			}
			k.References++
			k.Shm, k.Disk, k.Message, k.Arguments = k.Shm+r.Shm, k.Disk+r.Disk, k.Message+r.Message, k.Arguments+r.Arguments
			if s.Largest = append(s.Largest, *r); len(s.Largest) >= 8*shownRows {
				s.Largest = largest(s.Largest)
			}
		})
		if err != nil {
			return nil, err
		}
		s.Largest = largest(s.Largest)
		s.Hosts = make([]kept, 0, len(hosts))
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			s.Hosts = append(s.Hosts, *hosts[name])
		}
		slices.SortStableFunc(s.Hosts, func(a, b kept) int { return cmp.Compare(b.bytes(), a.bytes()) })
		return s, nil
	}
}

// largest are the references of most bytes, of the same size those that are kept for longest.
func largest(all []comms.ReferenceRow) []comms.ReferenceRow {
	slices.SortStableFunc(all, func(a, b comms.ReferenceRow) int {
		return cmp.Or(cmp.Compare(b.Size+b.Arguments, a.Size+a.Arguments), cmp.Compare(b.Age, a.Age), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), shownRows)]
}
