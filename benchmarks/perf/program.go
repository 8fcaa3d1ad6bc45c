package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/cascade-run/cascade"
)

// envPart says to a process which part of a measurement it plays.
const envPart = "CASCADE_PERF_PART"

// The parts.
const (
	partRelay   = "relay"
	partEcho    = "echo"
	partProgram = "program"
)

// Part plays the part of a measurement for which this process was started, if it was,
// and never returns then. A binary that measures calls it behind cascade.Main.
func Part() {
	var play func() error
	switch os.Getenv(envPart) {
	case partRelay:
		play = passOn
	case partEcho:
		play = sendBack
	case partProgram:
		Register()
		play = func() error { return serveProgram(os.Stdin, os.Stdout) }
	default:
		return
	}
	if err := play(); err != nil {
		fmt.Fprintf(os.Stderr, "part %s of a measurement: %v\n", os.Getenv(envPart), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startPart starts this binary again to play a part, with files from 3 on, which are closed here.
func startPart(part string, files ...*os.File) (*exec.Cmd, error) {
	c, err := partCommand(part)
	if err == nil {
		c.ExtraFiles = files
		err = c.Start()
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("start part %s: %w", part, err)
	}
	return c, nil
}

func partCommand(part string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(path)
	c.Env, c.Stderr = append(os.Environ(), envPart+"="+part), os.Stderr
	return c, nil
}

// program is another process, which has a session of the cluster that is measured.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	ask *json.Encoder
	say *json.Decoder
}

// question is what a program is to do.
type question struct {
	What  string
	State string // to open a session: of the cluster
	N, M  int
}

// answer is what came of it.
type answer struct {
	Error  string
	Values []float64
}

// withProgram runs f with a program that has a session of the local cluster.
func (b *bench) withProgram(ctx context.Context, f func(*program) error) (err error) {
	if _, err := b.local(ctx); err != nil {
		return err
	}
	cmd, err := partCommand(partProgram)
	if err != nil {
		return err
	}
	return converse(cmd, question{What: "open", State: b.state("embedded")}, f)
}

// converse starts a program that answers questions on its standard streams, asks the first, and runs f with it.
func converse(cmd *exec.Cmd, first question, f func(*program) error) (err error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start program %s: %w", cmd.Path, err)
	}
	p := &program{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	if _, err := p.do(first); err != nil {
		return err
	}
	return f(p)
}

// do has a program do something, and waits for what comes of it.
func (p *program) do(q question) ([]float64, error) {
	if err := p.ask.Encode(q); err != nil {
		return nil, fmt.Errorf("ask a program to %s: %w", q.What, err)
	}
	var a answer
	if err := p.say.Decode(&a); err != nil {
		return nil, fmt.Errorf("ask a program to %s: %w", q.What, err)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("a program's %s: %s", q.What, a.Error)
	}
	return a.Values, nil
}

// serveProgram is the life of a program: it does what it is asked to.
func serveProgram(in io.Reader, out io.Writer) (err error) {
	ask, say := json.NewDecoder(in), json.NewEncoder(out)
	p := &caller{}
	defer func() { err = errors.Join(err, p.close()) }()
	for {
		var q question
		if err := ask.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		if a.Values, err = p.answer(q); err != nil {
			a.Error = err.Error()
		}
		if err := say.Encode(a); err != nil {
			return err
		}
	}
}

// caller is what a program has open.
type caller struct {
	cluster *cascade.Cluster
	session *cascade.Session
	held    []cascade.Future[int64] // calls that are not waited for yet
	holders []cascade.AnyFuture     // calls that keep the cores
}

func (p *caller) answer(q question) ([]float64, error) {
	if q.What == "open" {
		return nil, p.open(q.State)
	}
	ctx := p.session.Context()
	switch q.What {
	case "latency":
		return p.latency(ctx, q.N)
	case "relay":
		rtt, err := netRTT(q.N, true)
		return []float64{microseconds(rtt)}, err
	case "echo":
		rtt, err := netRTT(q.N, false)
		return []float64{microseconds(rtt)}, err
	case "actor":
		return p.actorLatency(ctx, q.N, q.M)
	case "actor burst":
		return timedOnce(func() error { return p.actorBurst(ctx, q.N, q.M) })
	case "actor create":
		return timedOnce(func() error { return p.actorCreate(ctx, q.N) })
	case "actor restart":
		return p.actorRestart(ctx, q.N)
	case "burst":
		return timedOnce(func() error { return p.burst(ctx, q.N) })
	case "nested":
		return timedOnce(func() error { return p.nested(ctx, q.N, q.M) })
	case "completed":
		return timedOnce(func() error { return p.completed(ctx, q.N) })
	case "wait":
		return timedOnce(func() error { return p.oneByOne(ctx, q.N) })
	case "put":
		return timedOnce(func() error { return p.put(ctx, q.N) })
	case "hold":
		return nil, p.hold(ctx, q.N)
	case "memory":
		n, err := settledRSS()
		return []float64{float64(n)}, err
	case "outstanding":
		return nil, p.outstanding(ctx, q.N)
	case "release":
		return nil, p.release(ctx)
	}
	return nil, fmt.Errorf("no such thing: %q", q.What)
}

func (p *caller) open(state string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p.cluster, err = cascade.Local(ctx, cascade.WithState(state)); err != nil {
		return err
	}
	p.session, err = p.cluster.Session(ctx, cascade.WithSessionName("perf"))
	return err
}

func (p *caller) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p.session != nil {
		err = p.session.Close(ctx)
	}
	if p.cluster != nil {
		err = errors.Join(err, p.cluster.Close())
	}
	return err
}

// timedOnce is what something took, in nanoseconds.
func timedOnce(f func() error) (took []float64, err error) {
	took = []float64{nanoseconds(func() { err = f() })}
	return took, err
}
