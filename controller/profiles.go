package controller

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/profiles"
)

// profileRows lists what tasks cost, sorted; filter is a name of a job, a task or a
// function, "" for all.
func (c *Controller) profileRows(p *pager, filter string) error {
	type known struct {
		sig profiles.Signature
		p   profiles.Profile
	}
	var all []known
	c.mu.Lock()
	c.foldEnded()
	for sig, prof := range c.book.All() {
		if filter == "" || filter == sig.Job || filter == sig.Group || filter == sig.Function {
			all = append(all, known{sig, prof})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.sig.Job, b.sig.Job), cmp.Compare(a.sig.Group, b.sig.Group), cmp.Compare(a.sig.Function, b.sig.Function))
	})
	for i := range all {
		if !p.add(func() any {
			e := profiles.EntryOf(all[i].sig, all[i].p)
			var b []byte
			if b, p.err = json.Marshal(&e); p.err != nil {
				return []byte(nil)
			}
			return &comms.ProfileRow{Entry: string(b)}
		}) {
			break
		}
	}
	return p.err
}

// setProfiles takes a profile file in, and stores it.
func (c *Controller) setProfiles(by comms.Identity, m *comms.SetProfiles) (comms.Message, error) {
	f, err := profiles.ParseFile("profiles", m.File)
	if err != nil {
		return nil, &badRequest{err.Error()}
	}
	c.mu.Lock()
	c.foldEnded()
	for i := range f.Profiles {
		e := &f.Profiles[i]
		c.book.Put(e.Signature(), e.Profile())
	}
	done := make(chan error, 1)
	c.dirty = 0
	c.store.PutProfiles(c.book.Dirty(), func(err error) { done <- err })
	c.mu.Unlock()
	select {
	case err = <-done:
	case <-c.quit:
		return nil, gcs.ErrClosed
	}
	c.mustStore(err)
	if err != nil {
		return nil, err
	}
	c.graphs.forget()
	c.audit.by(by, "profiles").Int("entries", len(f.Profiles)).Str("outcome", "done").Send()
	return &comms.Reply{Req: m.Req}, nil
}
