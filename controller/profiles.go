package controller

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/profiles"
)

// profileRows lists what tasks cost, sorted; filter is a name of a job, a task or a
// function, "" for all. The profiles of a job's series are listed with it.
func (c *Controller) profileRows(p *pager, filter string) error {
	type known struct {
		sig profiles.Signature
		p   profiles.Profile
	}
	var all []known
	c.mu.Lock()
	c.foldEnded()
	for sig, prof := range c.book.All() {
		if filter == "" || filter == sig.Job || profiles.Series(filter) == sig.Job || filter == sig.Group || filter == sig.Function {
			all = append(all, known{sig, prof})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.sig.Job, b.sig.Job), cmp.Compare(a.sig.Group, b.sig.Group), cmp.Compare(a.sig.Function, b.sig.Function))
	})
	for i := range all {
		if !p.addEntry(func() any { return profiles.EntryOf(all[i].sig, all[i].p) }, func(entry string) any { return &comms.ProfileRow{Entry: entry} }) {
			break
		}
	}
	return p.err
}

// addEntry offers what is an entry of a profile file as the next row, as add does.
func (p *pager) addEntry(entry func() any, row func(entry string) any) bool {
	return p.add(func() any {
		b, err := json.Marshal(entry())
		if err != nil {
			p.err = err
			return nil
		}
		return row(string(b))
	})
}

// linkRows lists the ways between hosts, sorted; filter is the name of a host, "" for all.
func (c *Controller) linkRows(p *pager, filter string) error {
	type known struct {
		pair profiles.Pair
		l    *profiles.Link
	}
	var all []known
	c.mu.Lock()
	for pair, l := range c.book.Links() {
		all = append(all, known{pair, l})
	}
	c.mu.Unlock()
	for _, k := range all {
		if filter != "" && filter != k.pair.From && filter != k.pair.To {
			continue
		}
		if !p.addEntry(func() any { return profiles.LinkEntryOf(k.pair, k.l) }, func(entry string) any { return &comms.LinkRow{Entry: entry} }) {
			break
		}
	}
	return p.err
}

// measured takes in what came to an agent from others.
func (c *Controller) measured(a core.Measured) {
	at := time.Now().Unix()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range a.Flows {
		c.book.RecordFlow(profiles.Flow{Pair: profiles.Pair{From: f.From, To: a.Agent}, Bytes: float64(f.Bytes), Pieces: float64(f.Pieces),
			Seconds: float64(f.Nanos) / 1e9, Beside: float64(f.Beside), Others: f.Others, At: at})
	}
	c.flows += len(a.Flows)
	c.saveLinks(manyFlows)
}

// manyFlows is how many flows may be lost with the process.
const manyFlows = 100

// saveLinks stores what is known of the ways between hosts when more than so many
// flows are not in the store. c.mu is held; storing does not wait.
func (c *Controller) saveLinks(moreThan int) {
	if c.flows > moreThan {
		c.flows = 0
		c.store.PutLinks(c.book.DirtyLinks(), c.mustStore)
	}
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
	for i := range f.Links {
		c.book.PutLink(f.Links[i].Pair(), f.Links[i].Link())
	}
	done := make(chan error, 2)
	c.dirty, c.flows = 0, 0
	c.store.PutProfiles(c.book.Dirty(), func(err error) { done <- err })
	c.store.PutLinks(c.book.DirtyLinks(), func(err error) { done <- err })
	c.mu.Unlock()
	for range 2 {
		select {
		case e := <-done:
			err = errors.Join(err, e)
		case <-c.quit:
			return nil, gcs.ErrClosed
		}
	}
	c.mustStore(err)
	if err != nil {
		return nil, err
	}
	c.graphs.forget()
	c.audit.by(by, "profiles").Int("entries", len(f.Profiles)).Int("links", len(f.Links)).Str("outcome", "done").Send()
	return &comms.Reply{Req: m.Req}, nil
}
