//go:build linux

package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cascade-run/cascade"
)

var _ = cascade.Func1("chaos_ring", ring, "with -> sums")

type ringSettings struct {
	N     int
	Waits bool `with:",optional"` // the first attempt waits for a member's end
}

// ring sums a vector over all members of its gang by a ring allreduce: what a
// member has goes round, a part at a time. Each says when it has met its neighbours.
func ring(ctx context.Context, s ringSettings) (sums []float64, err error) {
	g, err := cascade.Gang(ctx)
	if err != nil {
		return nil, err
	}
	prev, next, err := meet(ctx, g.Members, g.Rank)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prev.Close(), next.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = prev.Close() }) // the error is that of who reads
	defer stop()
	host, _, err := net.SplitHostPort(g.Members[g.Rank])
	if err != nil {
		return nil, err
	}
	if err := Say(ctx, "start", host); err != nil {
		return nil, err
	}
	if s.Waits && cascade.Task(ctx).Attempt == 1 {
		_, err := io.Copy(io.Discard, prev)
		return nil, errors.Join(err, fmt.Errorf("the member before rank %d is gone", g.Rank))
	}
	v := make([]float64, s.N)
	for i := range v {
		v[i] = float64((g.Rank + 1) * i)
	}
	part := func(i int) []float64 {
		i = (i%g.Size + g.Size) % g.Size
		return v[i*s.N/g.Size : (i+1)*s.N/g.Size]
	}
	for step := range 2 * (g.Size - 1) {
		out, in := part(g.Rank-step), part(g.Rank-step-1)
		got := make([]float64, len(in))
		sent := make(chan error, 1)
		go func() { sent <- binary.Write(next, binary.LittleEndian, out) }()
		if err := errors.Join(binary.Read(prev, binary.LittleEndian, got), <-sent); err != nil {
			return nil, fmt.Errorf("step %d of the ring: %w", step, err)
		}
		for i := range in {
			if step < g.Size-1 {
				in[i] += got[i] // reduce
			} else {
				in[i] = got[i] // gather
			}
		}
	}
	return v, Say(ctx, "end", host)
}

// meet connects a member with those before and behind it in the ring.
func meet(ctx context.Context, members []string, rank int) (prev, next net.Conn, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", members[rank])
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // the error is Accept's
	defer stop()
	dialed := make(chan error, 1)
	go func() {
		var d net.Dialer
		for {
			if next, err = d.DialContext(ctx, "tcp", members[(rank+1)%len(members)]); err == nil || ctx.Err() != nil {
				dialed <- err
				return
			}
			time.Sleep(time.Millisecond) // it listens soon
		}
	}()
	prev, acceptErr := l.Accept()
	return prev, next, errors.Join(acceptErr, <-dialed)
}
