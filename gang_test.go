package cascade_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
)

var (
	_ = cascade.Func1("t_ring", ringOf, "with -> sums")
	_ = cascade.Func0("t_small", smallOf, "-> n")
)

func smallOf(context.Context) (int, error) {
	time.Sleep(time.Millisecond)
	return 1, nil
}

type ringParams struct {
	N    int
	Fail int `with:",optional"` // this rank fails in its first attempt
	Die  int `with:",optional"` // this one's process ends in its first
}

// ringOf sums a vector over all members of its gang, each of which begins with
// rank+1 everywhere, by a ring allreduce: what a member has goes round, a part
// at a time.
func ringOf(ctx context.Context, p ringParams) (sums []float64, err error) {
	g, err := cascade.Gang(ctx)
	if err != nil {
		return nil, err
	}
	first := cascade.Task(ctx).Attempt == 1
	if first && p.Fail == g.Rank && p.Fail > 0 {
		return nil, errors.New("bad luck") // the others wait for it meanwhile
	}
	prev, next, err := neighbours(ctx, g.Members, g.Rank)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prev.Close(), next.Close()) }()
	if first && p.Die == g.Rank && p.Die > 0 {
		return nil, errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), ctx.Err())
	}
	v := make([]float64, p.N)
	for i := range v {
		v[i] = float64(g.Rank + 1)
	}
	part := func(i int) []float64 {
		i = (i%g.Size + g.Size) % g.Size
		return v[i*p.N/g.Size : (i+1)*p.N/g.Size]
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
	return v, nil
}

// neighbours meets the members before and behind in the ring.
func neighbours(ctx context.Context, members []string, rank int) (prev, next net.Conn, err error) {
	_, port, err := net.SplitHostPort(members[rank])
	if err != nil {
		return nil, nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("", port))
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

// gangJob is a gang, and many small tasks that could take its slots.
func gangJob(t *testing.T, members, small int, p string, more string) *dag.Graph {
	t.Helper()
	text := fmt.Sprintf("job: gang\ntasks:\n  small: {for: {i: \"0..%d\"}, run: t_small, out: [n], resources: {cpu: 0.5}}\n", small-1) +
		fmt.Sprintf("  ring: {gang: %d, run: t_ring, with: {%s}, out: [sums], resources: {cpu: 0.5}, %s}\noutputs: [\"ring[*].sums\"]\n", members, p, more)
	g, err := dag.ParseYAML("gang.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// checkSums compares what each member has with the sum over all of them.
func checkSums(t *testing.T, c *cascade.Cluster, j *cascade.Job, members, n int) {
	t.Helper()
	cascadetest.Wait(t, c, j)
	for rank := range members {
		at, err := j.Locate(t.Context(), "ring["+strconv.Itoa(rank)+"].sums")
		if err != nil || len(at) != 1 {
			t.Fatalf("%d datasets, %v", len(at), err)
		}
		var b bytes.Buffer
		if err := j.Fetch(t.Context(), at[0], &b); err != nil {
			t.Fatal(err)
		}
		got := make([]float64, n)
		if err := binary.Read(&b, binary.LittleEndian, got); err != nil {
			t.Fatalf("member %d: %v", rank, err)
		}
		for i := range got {
			if want := float64(members * (members + 1) / 2); got[i] != want {
				t.Fatalf("member %d has %g at %d, want %g", rank, got[i], i, want)
			}
		}
	}
}

func TestGang(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	for _, tt := range []struct{ name, with, more string }{
		{"starts together", "n: 100", "retries: 0"},
		{"a member fails", "n: 100, fail: 2", "retries: 1"},
		{"a member dies", "n: 100, die: 3", "retries: 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkSums(t, c, cascadetest.SubmitGraph(t, c, gangJob(t, 4, 500, tt.with, tt.more)), 4, 100)
		})
	}
	t.Run("without retries it fails as one", func(t *testing.T) {
		_, err := cascadetest.SubmitGraph(t, c, gangJob(t, 4, 1, "n: 4, fail: 1", "retries: 0")).Wait(t.Context())
		if err == nil || !strings.Contains(err.Error(), "bad luck") {
			t.Fatalf("the job ended with %v", err)
		}
	})
}
