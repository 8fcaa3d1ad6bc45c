package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// maxChunk bounds what one Fetch is answered with, in bytes.
const maxChunk = 1 << 20

// maxHeld bounds how many datasets one client has held for it.
const maxHeld = 16

// fromClient serves bytes of a dataset. Bytes in shared memory are pinned until the
// driver says that the chunk was sent; bytes that a client of this host reads by
// itself, until the client says that it has.
func (c *Core) fromClient(ev FromClient) {
	if q, ok := ev.Msg.(*comms.Query); ok {
		c.query(ev.Client, q)
		return
	}
	m, ok := ev.Msg.(*comms.Fetch)
	if !ok || m.Log {
		return
	}
	reply := func(code comms.Code, format string, args ...any) {
		c.emit(ToClient{Client: ev.Client, Msg: &comms.Reply{Req: m.Req, Code: code, Message: fmt.Sprintf(format, args...)}})
	}
	if m.Ends > 0 {
		if !c.endHold(ev.Client, m.Ends) {
			reply(comms.CodeNotFound, "nothing is held for request %d", m.Ends)
			return
		}
		reply(comms.CodeOK, "")
		return
	}
	j := c.byJob[m.Data.Job]
	if j == nil {
		reply(comms.CodeNotFound, "job %s is not on this agent", m.Data.Job)
		return
	}
	d := j.data[m.Data.DatasetRef]
	if d == nil {
		reply(comms.CodeNotFound, "dataset %s is not on this agent: it was not made yet, or it is no output of the job and was freed", m.Data)
		return
	}
	if m.Offset > d.desc.Size {
		reply(comms.CodeBadRequest, "offset %d is behind the end of dataset %s at %d", m.Offset, m.Data, d.desc.Size)
		return
	}
	n := min(d.desc.Size-m.Offset, maxChunk)
	if m.Max > 0 {
		n = min(n, m.Max)
	}
	chunk := &comms.Chunk{Req: m.Req, Offset: m.Offset, Total: d.desc.Size, Desc: c.described(d)}
	if !d.sealed {
		body := d.desc.Place.Bytes
		lo := min(m.Offset, uint64(len(body)))
		c.emit(ToClient{Client: ev.Client, Msg: chunk, Body: body[lo:min(lo+n, uint64(len(body)))]})
		return
	}
	f := &fetch{client: ev.Client, req: m.Req, msg: chunk, at: m.Offset, n: n, holds: c.mayHold(ev.Client, m.Host)}
	c.fetches = append(c.fetches, f)
	f.pins = c.lastReq + 1
	c.ask(&request{fetch: f}, ledger.Request{Owner: ledger.Owner(1)<<63 | ledger.Owner(f.pins), Class: ledger.Start,
		Pins: []ledger.Key{j.key(d)}})
	c.effects()
}

// described is a dataset's description as others may see it.
func (c *Core) described(d *dataset) comms.Desc {
	desc := d.desc
	desc.Place.Bytes = nil
	return desc
}

func (c *Core) serve(f *fetch, pinned ledger.Pinned) {
	p := pinned.Place
	f.served = true
	f.msg.Desc.Place.Segment, f.msg.Desc.Place.Offset = uint32(p.Segment), uint64(p.Offset)
	path := ""
	if seg := c.segs[p.Segment]; seg != nil {
		path = seg.path
	}
	if f.holds = f.holds && path != ""; f.holds {
		f.msg.Desc.Place.Where = path
		c.must(c.led.Lend(pinned.Key)) // it may lock the file, and look at it for longer than it is held
		c.emit(ToClient{Client: f.client, Msg: f.msg})
		return
	}
	c.emit(ServeChunk{Client: f.client, Msg: f.msg, Path: path, At: uint64(p.Offset) + f.at, N: f.n})
}

// mayHold tells whether a client that says where it runs may read the memory of this host.
func (c *Core) mayHold(client uint64, host string) bool {
	if host == "" || !slices.ContainsFunc(c.cfg.Total.Custom, func(a comms.Amount) bool { return a.Name == host }) {
		return false
	}
	n := 0
	for _, f := range c.fetches {
		if f.client == client && f.holds {
			n++
		}
	}
	return n < maxHeld
}

// endHold lets go of what is held for a client's request.
func (c *Core) endHold(client, req uint64) bool {
	at := slices.IndexFunc(c.fetches, func(f *fetch) bool { return f.client == client && f.req == req && f.holds && f.served })
	if at < 0 {
		return false
	}
	c.closeFetch(c.fetches[at])
	return true
}

// refuseFetch tells that bytes cannot be served: they are gone, or there is no
// room to bring them back into memory, which may be so for a moment only.
func (c *Core) refuseFetch(f *fetch, err error) {
	code := comms.CodeUnavailable
	if errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrTooLarge) {
		code = comms.CodeLost
	}
	c.emit(ToClient{Client: f.client, Msg: &comms.Reply{Req: f.req, Code: code, Message: err.Error()}})
	c.fetches = slices.DeleteFunc(c.fetches, func(o *fetch) bool { return o == f })
}

func (c *Core) endFetch(client, req uint64) {
	for _, f := range slices.Clone(c.fetches) {
		if f.client == client && f.req == req {
			c.closeFetch(f)
		}
	}
}

// clientGone drops what waits for a client. A chunk that is being read keeps its
// pin until the driver says that it has let go of the bytes.
func (c *Core) clientGone(client uint64) {
	for _, f := range slices.Clone(c.fetches) {
		if f.client == client && (!f.served || f.holds) {
			c.closeFetch(f)
		}
	}
}

func (c *Core) closeFetch(f *fetch) {
	c.fetches = slices.DeleteFunc(c.fetches, func(o *fetch) bool { return o == f })
	if c.requests[f.pins] != nil {
		delete(c.requests, f.pins)
		c.must(c.led.Release(f.pins))
		c.effects()
	}
}
