package model

import (
	"time"

	"github.com/cascade-run/cascade/internal/eventqueue"
)

// world is virtual time and what is planned in it.
type world struct {
	now    time.Duration
	agenda eventqueue.Agenda[func()]
	err    error
}

// epoch is the wall-clock time at virtual time 0.
var epoch = time.Unix(1_800_000_000, 0).UTC()

func (w *world) wall() time.Time { return epoch.Add(w.now) }

func (w *world) after(d time.Duration, do func()) {
	w.agenda.Add(w.now+max(d, 0), do)
}

// run goes on until done says so, nothing is left to do, or something failed.
func (w *world) run(done func() bool) {
	for w.agenda.Len() > 0 && w.err == nil && !done() {
		at, do := w.agenda.Take()
		w.now = at
		do()
	}
}

func (w *world) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// machine has cores, which are given to who asked first.
type machine struct {
	w     *world
	free  int
	queue []use
	head  int
}

type use struct {
	d    time.Duration
	then func()
}

// use occupies a core for d.
func (m *machine) use(d time.Duration, then func()) {
	if m.free == 0 {
		m.queue = append(m.queue, use{d, then})
		return
	}
	m.free--
	m.start(use{d, then})
}

func (m *machine) start(u use) {
	m.w.after(u.d, func() {
		u.then()
		if m.head == len(m.queue) {
			m.free++
			return
		}
		next := m.queue[m.head]
		m.queue[m.head] = use{}
		if m.head++; m.head == len(m.queue) {
			m.queue, m.head = m.queue[:0], 0
		}
		m.start(next)
	})
}

// server is a process, or a thread of one, that works off an inbox in turns.
type server struct {
	on    *machine
	idle  func()        // ends a turn; may be nil
	pause time.Duration // of each turn, without a core: a sync to disk

	inbox []func()
	owed  time.Duration // processor time that the next turn needs
	busy  bool
	used  time.Duration // processor time since the jobs came
}

// post puts something into the inbox that costs d.
func (s *server) post(d time.Duration, do func()) {
	s.inbox = append(s.inbox, do)
	s.charge(d)
}

// charge has the server work for d more.
func (s *server) charge(d time.Duration) {
	s.owed += d
	if !s.busy {
		s.busy = true
		s.turn()
	}
}

func (s *server) turn() {
	items, d := s.inbox, s.owed
	s.inbox, s.owed = nil, 0
	s.on.use(d, func() {
		s.used += min(d, max(s.on.w.now-settle, 0))
		s.on.w.after(s.pause, func() { s.over(items) })
	})
}

func (s *server) over(items []func()) {
	for _, do := range items {
		do()
	}
	if s.idle != nil && len(items) > 0 {
		s.idle()
	}
	if len(s.inbox) > 0 || s.owed > 0 {
		s.turn()
		return
	}
	s.busy = false
}

// wire delivers in order.
type wire struct {
	w         *world
	delay     time.Duration
	perByte   float64 // seconds
	last      time.Duration
	delivered uint64
}

func (l *wire) send(bytes int, arrive func()) {
	at := max(l.w.now+l.delay+time.Duration(float64(bytes)*l.perByte*float64(time.Second)), l.last)
	l.last = at
	l.delivered++
	l.w.after(at-l.w.now, arrive)
}
