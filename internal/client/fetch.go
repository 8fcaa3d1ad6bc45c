package client

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// Fetch fetches what want names from an agent, piece by piece, until size bytes are there; a
// size of zero means until the agent says that it was all. When the size is known
// some pieces are asked for ahead, so that the agent reads while we write. It returns
// how many bytes it wrote, also with an error.
func (c *Conn) Fetch(ctx context.Context, agent string, addresses []string, want *comms.Fetch, size uint64, w io.Writer) (n uint64, err error) {
	p, err := c.agentPeer(ctx, agent, addresses)
	if err != nil {
		return 0, err
	}
	var asked []*Request // in the order of their offsets
	defer func() {
		for _, r := range asked {
			p.requests.end(r)
		}
	}()
	got, next, end, ahead := want.Offset, want.Offset, want.Offset+size, 1
	if size > 0 {
		ahead = fetchAhead
	}
	for {
		for len(asked) < ahead && (size == 0 || next < end) {
			r, err := p.requests.start(func(req uint64) comms.Message {
				f := *want
				f.Req, f.Offset, f.Max = req, next, fetchPiece
				return &f
			})
			if err != nil {
				return n, err
			}
			asked = append(asked, r)
			next += fetchPiece
		}
		m, body, err := asked[0].Next(ctx)
		if err != nil {
			return n, err
		}
		p.requests.end(asked[0])
		asked = asked[1:]
		chunk, ok := m.(*comms.Chunk)
		if !ok || chunk.Offset != got {
			return n, fmt.Errorf("unexpected answer %T", m)
		}
		written, err := w.Write(body)
		n += uint64(written)
		if err != nil {
			return n, err
		}
		got += uint64(len(body))
		switch {
		case size == 0 && (got >= chunk.Total || len(body) == 0), size > 0 && got == end:
			return n, nil
		case size == 0:
			next = got
		case got != min(chunk.Offset+fetchPiece, end):
			return n, fmt.Errorf("%w: got %d of %d bytes", ErrLost, n, size)
		}
	}
}

const (
	fetchPiece = 1 << 20 // bytes
	fetchAhead = 8       // pieces
)

// agentPeer returns the link to the first of an agent's addresses that answers.
func (c *Conn) agentPeer(ctx context.Context, name string, addresses []string) (*peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return nil, ErrClosed
	}
	if c.failed != nil {
		return nil, c.failed
	}
	if socket := beside(c.ctrl.address, name); socket != "" {
		if _, err := os.Stat(socket); err == nil {
			addresses = append([]string{"ipc://" + socket}, addresses...)
		}
	}
	var last error
	for _, a := range addresses {
		if p := c.agent[name+" "+a]; p != nil {
			return p, nil
		}
		p, err := dialPeer(ctx, a, pki.RoleAgent, name, c.opts)
		if err != nil {
			last = err
			continue
		}
		c.agent[name+" "+a] = p
		return p, nil
	}
	if last == nil {
		last = fmt.Errorf("%w: the agent has no address", ErrUnavailable)
	}
	return nil, last
}

// Piece fetches one piece from an agent: of what want names, at most want.Max bytes from want.Offset on.
// The answer says how many bytes there are in all.
func (c *Conn) Piece(ctx context.Context, agent string, addresses []string, want comms.Fetch) (*comms.Chunk, []byte, error) {
	p, err := c.agentPeer(ctx, agent, addresses)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.requests.start(func(req uint64) comms.Message {
		want.Req = req
		return &want
	})
	if err != nil {
		return nil, nil, err
	}
	defer p.requests.end(r)
	m, body, err := r.Next(ctx)
	if err != nil {
		return nil, nil, err
	}
	chunk, ok := m.(*comms.Chunk)
	if !ok {
		return nil, nil, fmt.Errorf("unexpected answer %T", m)
	}
	return chunk, body, nil
}
