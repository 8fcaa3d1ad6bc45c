package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Measure is one number. A counter only grows while its process lives; its name
// ends in _total.
type Measure struct {
	Name  string
	Help  string
	Label [2]string // name and value, such as outcome and failed; "" none
	Read  func() float64
}

// Counter tells whether the measure only grows.
func (m *Measure) Counter() bool { return strings.HasSuffix(m.Name, "_total") }

// Registry makes the measures a registry, with what the Go runtime and the kernel
// say of the process.
func Registry(all []Measure) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	cs := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, m := range all {
		labels := prometheus.Labels{}
		if m.Label[0] != "" {
			labels[m.Label[0]] = m.Label[1]
		}
		if m.Counter() {
			cs = append(cs, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, m.Read))
		} else {
			cs = append(cs, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, m.Read))
		}
	}
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register a metric: %w", err)
		}
	}
	return r, nil
}

// Server serves metrics until Close.
type Server struct {
	listener net.Listener
	http     *http.Server
	ended    chan error
}

// Serve shows measures at address: PORT or :PORT on the loopback, or HOST:PORT.
func Serve(address string, all []Measure) (*Server, error) {
	s, err := serve(address, all)
	if err != nil {
		return nil, fmt.Errorf("serve metrics at %s: %w", address, err)
	}
	return s, nil
}

func serve(address string, all []Measure) (*Server, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	r, err := Registry(all)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s := &Server{listener: l, ended: make(chan error, 1), http: &http.Server{Handler: own(host, mux),
		ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}}
	go func() { s.ended <- s.http.Serve(l) }()
	return s, nil
}

// own refuses requests that were meant for another host: a web page that a browser
// shows may have its own name point here.
func own(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Host
		if h, _, err := net.SplitHostPort(asked); err == nil {
			asked = h
		}
		if asked != host && asked != "localhost" && net.ParseIP(strings.Trim(asked, "[]")) == nil {
			http.Error(w, "ask by this host's address", http.StatusForbidden)
			return
		}
		if r.Header.Get("Origin") != "" {
			http.Error(w, "this is not for web pages", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Addr returns where the metrics are, HOST:PORT.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if e := <-s.ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
