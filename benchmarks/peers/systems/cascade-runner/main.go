// Command cascade-runner is the runner of benchmarks/peers for Cascade with tasks that
// are Go functions. It uses the public Go client only. The files beside its folder are
// the runners of other systems; the protocol is that of ../harness.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
)

func main() {
	cascade.Main() // executors are this binary, started again
	if err := serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// values are what a workload measured: seconds, bytes, counts.
type values map[string]float64

// args are those of a request.
type args map[string]any

func (a args) int(name string) int {
	x, _ := a[name].(float64)
	return int(x)
}

type request struct {
	Workload string `json:"workload"`
	Args     args   `json:"args"`
}

type answer struct {
	Values  values `json:"values,omitempty"`
	Error   string `json:"error,omitempty"`
	Workers []int  `json:"workers,omitempty"`
}

// runner is a cluster that is up.
type runner struct {
	client  *cascade.Client
	cores   int
	workers []int // of the last answer
}

func serve(ctx context.Context) (err error) {
	conn, err := net.Dial("unix", os.Getenv("PEERS_SOCKET"))
	if err != nil {
		return fmt.Errorf("reach the driver: %w", err)
	}
	defer conn.Close()
	cores, err := strconv.Atoi(os.Getenv("PEERS_CORES"))
	if err != nil {
		return fmt.Errorf("read PEERS_CORES: %w", err)
	}
	r, closeAll, err := open(ctx, cores)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	out := json.NewEncoder(conn)
	if err := out.Encode(map[string]string{"version": os.Getenv("PEERS_VERSION"),
		"model": "controller, agent and client in one process; one executor process for each core"}); err != nil {
		return fmt.Errorf("answer the driver: %w", err)
	}
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 16<<20) // a trace is one line
	for in.Scan() {
		var q request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if err := out.Encode(r.answer(ctx, q)); err != nil {
			return fmt.Errorf("answer the driver: %w", err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	return nil
}

// open starts a cluster, on this machine or on the hosts of PEERS_HOSTS, and warms it.
// The function that it returns ends it, also after an error.
func open(ctx context.Context, cores int) (r *runner, closeAll func() error, err error) {
	if text := os.Getenv("PEERS_HOSTS"); text != "" {
		all := strings.Split(text, ",")
		c, d, err := openHosts(ctx, all)
		if err != nil {
			return nil, d.close, err
		}
		r = &runner{client: c, cores: cores}
		_, err = r.broadcast(ctx, args{"size": 8.0, "consumers": float64(len(all) - 1), "times": 1.0})
		return r, func() error { return errors.Join(c.Close(), d.close()) }, err
	}
	c, err := cascade.Local(ctx, cascade.WithState(filepath.Join(os.Getenv("PEERS_DIR"), "state")), cascade.WithCPU(float64(cores)), cascade.WithStore(4<<30))
	if err != nil {
		return nil, func() error { return nil }, err
	}
	r = &runner{client: c.Client, cores: cores}
	for range 2 { // executors are up, and a profile is known as of any job that runs again
		if _, err := r.noop(ctx, args{"n": float64(200 * cores)}); err != nil {
			return nil, c.Close, err
		}
	}
	return r, c.Close, nil
}

// answer measures what a request asks for.
func (r *runner) answer(ctx context.Context, q request) answer {
	workloads := map[string]func(context.Context, args) (values, error){
		"noop": r.noop, "latency": r.latency, "chain": r.chain, "fan": r.fan, "merge": r.merge, "tree": r.tree, "memory": r.memory,
		"handover": r.handover, "broadcast": r.broadcast, "repeat": r.repeat, "trace": r.trace, "kill": r.kill,
		"calls_sync": r.callsSync, "calls_async": r.callsAsync, "calls_nested": r.callsNested, "calls_wait": r.waits, "calls_put": r.puts, "calls_stream": r.streams,
		"actors_sync": r.actorsSync, "actors_async": r.actorsAsync, "actors_create": r.actorsCreate, "actors_restart": r.actorsRestart,
	}
	measure, ok := workloads[q.Workload]
	if !ok {
		return answer{Error: "not supported: Go tasks do not take part in it, their kernel would be another"}
	}
	r.workers = nil
	v, err := measure(ctx, q.Args)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Values: v, Workers: r.workers}
}

// timed tells how long f takes, in seconds.
func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return time.Since(began).Seconds(), err
}
