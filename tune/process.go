package tune

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// serveGrace is how long a process has for an answer when its trial is to end.
const serveGrace = 5 * time.Second

// leftGrace is how long what a process has written is read after its end, if processes outside of its group hold its
// output open.
const leftGrace = time.Second

// process is a program that serves trials. Its methods, but for kill and ended, are called one after another.
type process struct {
	cmd   *exec.Cmd
	in    *os.File
	lines chan []byte   // of its output, until that ends
	over  chan struct{} // it has ended, and was waited for
	last  *tail         // of its standard error
	log   string        // where what it serves writes its standard error instead, or empty
	asked uint64        // the number of the last request
	long  error         // why its output is not read any more; of the time after lines
}

// startProcess starts a program in a folder, for an experiment.
func startProcess(args []string, dir, experiment string) (*process, error) {
	if len(args) == 0 {
		return nil, errors.New("the program has no arguments: name it")
	}
	if dir == "" {
		dir = experiment
	}
	args = slices.Clone(args)
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "{experiment}", experiment)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), lines: make(chan []byte), over: make(chan struct{}), last: &tail{to: io.Discard}}
	p.cmd.Dir = dir
	group(p.cmd)
	p.cmd.Cancel = nil // it has no context
	out, errs, err := p.start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	read := make(chan struct{}, 2)
	go func() {
		p.read(out)
		read <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(p.last, errs) // it ends with the process
		read <- struct{}{}
	}()
	go p.wait(out, errs, read)
	return p, nil
}

// start starts the program with pipes of our own: those of its exec.Cmd would be waited for as long as any process
// holds them open.
func (p *process) start() (out, errs *os.File, err error) {
	var ours, its []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				return r, w
			}
		}
		return nil, nil
	}
	in, toIn := pipe()
	out, toOut := pipe()
	errs, toErrs := pipe()
	ours, its = []*os.File{toIn, out, errs}, []*os.File{in, toOut, toErrs}
	if err == nil {
		p.in, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = toIn, in, toOut, toErrs
		err = p.cmd.Start()
	}
	if err != nil {
		its = append(its, ours...)
	}
	for _, f := range its {
		if f != nil {
			_ = f.Close() // the program has it, or there is none
		}
	}
	return out, errs, err
}

// wait waits for the end of the process, and of what it wrote.
func (p *process) wait(out, errs *os.File, read <-chan struct{}) {
	_ = p.cmd.Wait() // why it ended is in the log of its trial
	endGroup(p.cmd)
	limit := time.Now().Add(leftGrace)
	for _, f := range []*os.File{out, errs} {
		if err := f.SetReadDeadline(limit); err != nil {
			_ = f.Close() // this system has no deadlines of pipes
		}
	}
	<-read
	<-read
	for _, f := range []*os.File{p.in, out, errs} {
		_ = f.Close() // no request uses it any more
	}
	close(p.over)
}

// wholeLines splits lines that have an end: half an answer is none.
func wholeLines(b []byte, _ bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1, b[:i], nil
	}
	return 0, nil, nil
}

func (p *process) read(out io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, lineLimit)
	s.Split(wholeLines)
	for s.Scan() {
		p.lines <- bytes.Clone(s.Bytes())
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		p.long = fmt.Errorf("a line of the output of %s has more than %d bytes", p.cmd.Args[0], lineLimit)
	}
	endGroup(p.cmd) // without its output it is of no use
}

// kill ends the process and all that it has started.
func (p *process) kill() {
	if p.ended() {
		return
	}
	endGroup(p.cmd)
	for range p.lines { // so that its reader ends
	}
	<-p.over
}

func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// errUnread says that a process had ended before it was asked.
var errUnread = errors.New("it had ended before it was asked")

// ask sends a request and returns the answer, which is an error or one of those wanted. When ctx has ended it comes soon, or the process is killed.
func (p *process) ask(ctx context.Context, r *serveRequest, wanted ...string) (a serveAnswer, err error) {
	p.asked++
	r.N = p.asked
	b, err := json.Marshal(r)
	if err != nil {
		return a, fmt.Errorf("encode the configuration: %w", err)
	}
	if err := p.write(ctx, append(b, '\n')); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.kill()
			return a, ctx.Err()
		}
		return a, errors.Join(errUnread, p.crashed())
	}
	line, there, err := p.next(ctx)
	if err != nil {
		return a, err
	}
	if !there {
		return a, p.crashed()
	}
	if err := json.Unmarshal(line, &a); err != nil {
		p.kill()
		return a, fmt.Errorf("read the answer %.100q: %w", line, err)
	}
	if err := a.check(r.N, wanted); err != nil {
		p.kill()
		return a, fmt.Errorf("the answer %.100q of %s: %w", line, p.cmd.Args[0], err)
	}
	return a, nil
}

// write sends a request. When ctx has ended the process has to take it soon.
func (p *process) write(ctx context.Context, b []byte) error {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.in.SetWriteDeadline(time.Now().Add(serveGrace)) // else it is killed by the one who ended ctx
		close(fired)
	})
	_, err := p.in.Write(b)
	if !stop() {
		<-fired
		_ = p.in.SetWriteDeadline(time.Time{}) // as above
	}
	return err
}

// next waits for a line.
func (p *process) next(ctx context.Context) (line []byte, there bool, err error) {
	select {
	case line, there = <-p.lines:
		return line, there, nil
	case <-ctx.Done():
	}
	late := time.NewTimer(serveGrace)
	defer late.Stop()
	select {
	case line, there = <-p.lines:
		return line, there, nil
	case <-late.C:
		p.kill()
		return nil, false, ctx.Err()
	}
}

// crashed says how the process ended, with the last lines of its log.
func (p *process) crashed() error {
	p.kill()
	if p.long != nil {
		return p.long
	}
	text := p.last.text()
	if b, err := os.ReadFile(p.log); err == nil && len(b) > 0 {
		text = strings.TrimSpace(string(b[max(0, len(b)-2000):]))
	}
	return fmt.Errorf("%s: %s\n%s", p.cmd.Args[0], p.cmd.ProcessState, text)
}

// group has a program lead a group of processes that ends with it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup kills what is left of a program's group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nothing may be left
	}
}
