//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cascade-run/cascade/agent/transfer"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// site is a lab with a worker on each host.
type site struct {
	lab     *netlab.Lab
	hosts   []*host
	folders []string // of the hosts' certificates
	dir     string   // of those folders
}

type host struct {
	on      *netlab.Host
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	at      []string // of each variant's Exchange
	control []string
	cpu     float64 // of the last answer
}

// variant is one way to move datasets.
type variant struct {
	name   string
	tls    bool
	noSums bool
	tuning transfer.Tuning
}

// open makes a lab and starts workers on its hosts.
func open(cfg netlab.Config) (s *site, err error) {
	s = &site{}
	if s.lab, err = netlab.New(cfg); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "cascade-bench-"); err == nil {
		s.folders, err = enrol(s.dir, cfg.Hosts)
	}
	for i := 0; i < cfg.Hosts && err == nil; i++ {
		h := &host{on: s.lab.Host(i), name: fmt.Sprintf("bench-%d-%d", os.Getpid(), i)}
		if err = h.start(); err == nil {
			s.hosts = append(s.hosts, h)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// start opens an Exchange on each host and returns its number.
func (s *site) start(v variant) (via int, err error) {
	for i, h := range s.hosts {
		c := command{Do: "start", Name: h.name, Host: h.on.Addr().String(), NoSums: v.noSums, Tuning: v.tuning}
		if v.tls {
			c.Member = s.folders[i]
		}
		a, err := h.ask(c)
		if err != nil {
			return 0, err
		}
		via = len(h.at)
		h.at, h.control = append(h.at, a.At), append(h.control, a.Control)
	}
	return via, nil
}

// enrol makes certificates for n hosts of a new cluster, in folders below dir.
func enrol(dir string, n int) (folders []string, err error) {
	a, err := pki.NewAuthority("benchmark", time.Now())
	if err != nil {
		return nil, err
	}
	for i := range n {
		m, err := a.Enrol(pki.RoleAgent, fmt.Sprintf("bench-%d-%d", os.Getpid(), i), time.Now)
		if err != nil {
			return nil, err
		}
		folder := filepath.Join(dir, strconv.Itoa(i))
		if err := m.Save(folder); err != nil {
			return nil, err
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

func (h *host) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	h.cmd = exec.Command(self, "-worker")
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	h.out = bufio.NewScanner(out)
	h.out.Buffer(nil, 64<<20)
	return h.on.Start(h.cmd)
}

// ask gives a worker a command and waits for its answer.
func (h *host) ask(c command) (a answer, err error) {
	line, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("%s: %s: %w", h.name, c.Do, err)
	}
	if !h.out.Scan() {
		return a, fmt.Errorf("%s: %s: the worker ended: %w", h.name, c.Do, errors.Join(h.out.Err(), h.cmd.Wait()))
	}
	if err := json.Unmarshal(h.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("%s: %s: %w", h.name, c.Do, err)
	}
	h.cpu = a.CPU
	if a.Err != "" {
		return a, fmt.Errorf("%s: %s: %s", h.name, c.Do, a.Err)
	}
	return a, nil
}

// close ends the workers and the lab.
func (s *site) close() error {
	errs := []error{os.RemoveAll(s.dir)}
	for _, h := range s.hosts {
		errs = append(errs, h.in.Close())
	}
	for _, h := range s.hosts {
		errs = append(errs, h.cmd.Wait())
	}
	return errors.Join(append(errs, s.lab.Close())...)
}

// run is one measurement.
type run struct {
	seconds float64
	cpu     float64 // seconds of all ends
}

// all asks every one of some hosts at once.
func all(hosts []*host, c command) error {
	errs := make([]error, len(hosts))
	var work sync.WaitGroup
	for i, h := range hosts {
		work.Go(func() { _, errs[i] = h.ask(c) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// move measures how long it takes until every receiver has a dataset of the
// first host, and checks the bytes.
func (s *site) move(via int, bytes int64, receivers int) (r run, err error) {
	origin, to := s.hosts[0], s.hosts[1:1+receivers]
	if _, err := origin.ask(command{Do: "offer", Via: via, Key: 1, Bytes: bytes}); err != nil {
		return r, err
	}
	if err := all(s.hosts, command{Do: "rest"}); err != nil {
		return r, err
	}
	before := s.cpu()
	began := time.Now()
	if err := all(to, command{Do: "pull", Via: via, Key: 1, Bytes: bytes, From: []transfer.Source{{Agent: origin.name, At: origin.at[via]}}}); err != nil {
		return r, err
	}
	r.seconds = time.Since(began).Seconds()
	if err := all(s.hosts, command{Do: "rest"}); err != nil {
		return r, err
	}
	r.cpu = s.cpu() - before
	want, err := origin.ask(command{Do: "sum", Bytes: bytes})
	if err != nil {
		return r, err
	}
	for _, h := range to {
		got, err := h.ask(command{Do: "sum", Bytes: bytes})
		if err != nil {
			return r, err
		}
		if got.Sum != want.Sum {
			return r, fmt.Errorf("%s has other bytes than %s", h.name, origin.name)
		}
	}
	return r, all(s.hosts, command{Do: "drop", Via: via, Key: 1})
}

func (s *site) cpu() (sum float64) {
	for _, h := range s.hosts {
		sum += h.cpu
	}
	return sum
}

// iperf sends total bytes from the first host to the second over n connections.
func iperf(lab *netlab.Lab, n int, total int64) (r run, err error) {
	server := exec.Command("iperf3", "-s", "-1", "--forceflush", "-B", lab.Host(1).Addr().String())
	out, err := server.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := lab.Host(1).Start(server); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Process.Kill())
		}
		err = errors.Join(err, server.Wait())
	}()
	lines := bufio.NewReader(out)
	for { // it says when it listens
		line, err := lines.ReadString('\n')
		if err != nil {
			return r, fmt.Errorf("iperf3 -s: %w", err)
		}
		if bytes.Contains([]byte(line), []byte("listening")) {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the server
	client := exec.Command("iperf3", "-c", lab.Host(1).Addr().String(), "-P", strconv.Itoa(n), "-n", strconv.FormatInt(total, 10), "-J")
	var text bytes.Buffer
	client.Stdout, client.Stderr = &text, os.Stderr
	if err := lab.Host(0).Start(client); err != nil {
		return r, err
	}
	if err := client.Wait(); err != nil {
		return r, fmt.Errorf("iperf3 -c: %w: %s", err, text.Bytes())
	}
	var report struct {
		End struct {
			Sum struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text.Bytes(), &report); err != nil {
		return r, fmt.Errorf("iperf3 -J: %w", err)
	}
	r.seconds = float64(total) * 8 / report.End.Sum.Bits
	r.cpu = (report.End.CPU.Host + report.End.CPU.Remote) / 100 * r.seconds
	return r, nil
}
