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
	cluster *cascade.Cluster
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
	r := &runner{}
	r.cluster, err = cascade.Local(ctx, cascade.WithState(filepath.Join(os.Getenv("PEERS_DIR"), "state")), cascade.WithCPU(float64(cores)), cascade.WithStore(4<<30))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cluster.Close()) }()
	for range 2 { // executors are up, and a profile is known as of any job that runs again
		if _, err := r.noop(ctx, args{"n": float64(200 * cores)}); err != nil {
			return err
		}
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

// answer measures what a request asks for.
func (r *runner) answer(ctx context.Context, q request) answer {
	workloads := map[string]func(context.Context, args) (values, error){
		"noop": r.noop, "latency": r.latency, "chain": r.chain, "fan": r.fan, "merge": r.merge, "tree": r.tree, "memory": r.memory,
		"handover": r.handover, "repeat": r.repeat, "trace": r.trace,
	}
	measure, ok := workloads[q.Workload]
	if !ok {
		return answer{Error: "not supported: Go tasks do not take part in it"}
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
