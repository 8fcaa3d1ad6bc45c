package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server serves a Handler on an address of this host's loopback.
type Server struct {
	handler  *Handler
	listener net.Listener
	http     *http.Server
	ended    chan error
}

// Listen serves the page at HOST:PORT; port 0 takes a free one. The host must be a loopback address:
// the page has no TLS of its own. Token and Hosts of cfg are set when they are empty; the address itself
// is always among the hosts.
func Listen(address string, cfg Config) (*Server, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("page at %q: want HOST:PORT, such as 127.0.0.1:7430: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("page at %s: it is served on this host alone, such as at 127.0.0.1:7430, for it has no TLS; ssh -L brings it to another, see docs/ui.md", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("page at %s: %w", address, err)
	}
	if cfg.Token == "" {
		cfg.Token = NewToken()
	}
	if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
		for _, name := range []string{host, "127.0.0.1", "localhost", "::1"} {
			cfg.Hosts = append(cfg.Hosts, net.JoinHostPort(name, port))
		}
	}
	h, err := New(cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{handler: h, listener: l, ended: make(chan error, 1), http: &http.Server{Handler: h,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}}
	go func() { s.ended <- s.http.Serve(l) }()
	return s, nil
}

// Addr is where the page is, HOST:PORT.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the address to open, with the token in its fragment, which a browser sends to no one.
func (s *Server) URL() string { return "http://" + s.Addr() + "/#t=" + s.handler.cfg.Token }

// Close ends the page, its streams and what it asks.
func (s *Server) Close() error {
	s.handler.end() // streams would not end
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.handler.Close()
	if e := <-s.ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
