package comms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Relay is a Unix socket for programs of this user that speak plain ZeroMQ. It forwards
// each connection over one of its own to a peer in a cluster, by TLS: the bytes of ZMTP
// are the same inside.
//
//	program ── ipc, our uid ──▶ Relay ── TLS, our certificate ──▶ controller or agent
type Relay struct {
	socket net.Listener
	dial   func(context.Context) (net.Conn, error)
	log    zerolog.Logger
	work   sync.WaitGroup
	life   context.Context
	end    context.CancelFunc
	room   chan struct{}
}

const (
	relayConns = 256              // connections at a time; more are closed
	relayDial  = 10 * time.Second // to connect to the peer
)

// NewRelay opens the socket at path and serves it until Close. target says which
// host:port a connection goes to: it may change.
func NewRelay(path string, s *Security, target func() string, log zerolog.Logger) (*Relay, error) {
	socket, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	r := &Relay{socket: socket, log: log, room: make(chan struct{}, relayConns)}
	r.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := s.dial(ctx, target())
		return c, distrust(err)
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.work.Go(r.accept)
	return r, nil
}

// Close closes the socket and all connections through it.
func (r *Relay) Close() error {
	r.end()
	err := r.socket.Close()
	r.work.Wait()
	return err
}

func (r *Relay) accept() {
	for {
		c, err := r.socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, most likely
			r.log.Error().Err(err).Msg("accept failed")
			select {
			case <-time.After(time.Second):
			case <-r.life.Done():
			}
			continue
		}
		select {
		case r.room <- struct{}{}:
			r.work.Go(func() {
				defer func() { <-r.room }()
				if err := r.carry(c); err != nil {
					r.log.Warn().Err(err).Msg("a connection is not relayed")
				}
			})
		default:
			r.log.Warn().Int("connections", relayConns).Msg("too many connections at a time, one is closed")
			c.Close()
		}
	}
}

// carry connects one program to the peer until one of them ends.
func (r *Relay) carry(c net.Conn) error {
	defer c.Close()
	if err := CheckUser(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.life, relayDial)
	defer cancel()
	far, err := r.dial(ctx)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	defer far.Close()
	stop := context.AfterFunc(r.life, func() { c.Close(); far.Close() })
	defer stop()
	var back sync.WaitGroup
	var fault error
	back.Go(func() {
		_, fault = io.Copy(c, far)
		c.Close() // the program sees that its peer has gone
	})
	_, _ = io.Copy(far, c) // ends with one of the two, which the other direction tells
	far.Close()
	back.Wait()
	if fault = distrust(fault); errors.Is(fault, ErrRefused) {
		return fault
	}
	return nil
}
