package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cascade-run/cascade"
)

var far = cascade.Func1("Far", lookFromAfar, "x -> out")

// sighting is what a task on another host saw.
type sighting struct {
	Took  float64 // seconds since the array was ready
	Where string  // the network of the host
}

func lookFromAfar(ctx context.Context, x cascade.Array[float64]) (s sighting, err error) {
	if s.Took, err = lookAt(ctx, x); err == nil {
		s.Where, err = network()
	}
	return s, err
}

// network names the one of this process.
func network() (string, error) { return os.Readlink("/proc/self/ns/net") }

const (
	startUp     = time.Minute // for the daemons
	storeOnHost = "2560MiB"   // as others get
)

// daemons are a controller on the first host, and an agent on each with a resource of the host's name.
type daemons struct{ started []*exec.Cmd }

// openHosts starts daemons on hosts, of which each is ADDRESS=NAMESPACE.
func openHosts(ctx context.Context, all []string) (c *cascade.Client, d *daemons, err error) {
	d = &daemons{}
	programs, state := os.Getenv("PEERS_PROGRAMS"), filepath.Join(os.Getenv("PEERS_DIR"), "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, d, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, d, err
	}
	first, space, _ := strings.Cut(all[0], "=")
	control := "tcp://" + first + ":7420"
	if err := d.start(space, filepath.Join(programs, "cascade-controller"), "--state", filepath.Join(state, "controller"), "--durability", "crash",
		"--listen", control, "--insecure-test-network"); err != nil {
		return nil, d, err
	}
	for i, host := range all {
		address, space, _ := strings.Cut(host, "=")
		name := hostName(i)
		if err := d.start(space, filepath.Join(programs, "cascade-agent"), "--name", name, "--state", filepath.Join(state, name),
			"--controller", control, "--listen", "tcp://"+address+":7421", "--insecure-test-network",
			"--cpu", "1", "--resource", name+"=1", "--store", storeOnHost, "--executor", self); err != nil {
			return nil, d, err
		}
	}
	socket := "ipc://" + filepath.Join(state, "controller", "run", "controller.sock")
	ctx, stop := context.WithTimeout(ctx, startUp)
	defer stop()
	for c == nil {
		if c, err = cascade.Dial(ctx, socket); err != nil && ctx.Err() != nil {
			return nil, d, err
		}
	}
	return c, d, c.Ready(ctx, len(all))
}

func hostName(i int) string { return fmt.Sprintf("host%d", i) }

func (d *daemons) start(space string, words ...string) error {
	cmd := exec.Command("nsenter", append([]string{"--net=" + space, "--"}, words...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", words[0], err)
	}
	d.started = append(d.started, cmd)
	return nil
}

// close ends the daemons, the controller last.
func (d *daemons) close() (err error) {
	for _, cmd := range slices.Backward(d.started) {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}
	return err
}

var errShared = errors.New("consumers were not on hosts of their own")

// broadcast is from the moment an array is ready on the first host to that when the last of its consumers, each on
// another, has it.
func (r *runner) broadcast(ctx context.Context, a args) (values, error) {
	consumers, times := a.int("consumers"), a.int("times")
	home, err := network()
	if err != nil {
		return nil, err
	}
	g := cascade.NewGraph("broadcast")
	x := fill.Add(g, "make", cascade.With(size{a.int("size")}), cascade.Resource(hostName(0), 1))
	seen := make([]cascade.Ref[sighting], consumers)
	for i := range seen {
		seen[i] = far.Add(g, fmt.Sprintf("far%d", i), x, cascade.Resource(hostName(i+1), 1))
		g.Output(seen[i], "")
	}
	d, err := g.Build()
	if err != nil {
		return nil, err
	}
	last, err := r.median(ctx, d, times, func(job *cascade.Job) (float64, error) {
		last, where := 0.0, []string{home}
		for _, ref := range seen {
			s, err := cascade.Result(ctx, job, ref)
			if err != nil {
				return 0, err
			}
			last, where = max(last, s.Took), append(where, s.Where)
		}
		slices.Sort(where)
		if len(slices.Compact(where)) != consumers+1 {
			return 0, errShared
		}
		return last, nil
	})
	return values{"last": last}, err
}
