package executor

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

const hog = 48 << 20 // bytes

// hoard holds memory until it was sampled.
func hoard(ctx context.Context, n int) (int, error) {
	b := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	r := ctx.Value(taskKey{}).(*run)
	for r.peak.Load() < uint64(n) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return int(b[0]), nil
}

func granted(ctx context.Context, n int) (map[string]int64, error) {
	return map[string]int64{"procs": int64(runtime.GOMAXPROCS(0)), "memory": debug.SetMemoryLimit(-1), "cpu": TaskOf(ctx).Resources.CPU}, nil
}

func TestMemoryIsSampled(t *testing.T) {
	reg := &Registry{}
	func1(reg, "hoard", hoard, "n -> m")
	a := startExecutor(t, reg, comms.Welcome{})
	a.dispatch(a.run(a.kind("hoard", []string{"n"}, []string{"m"}), inline(t, reg, hog)))
	it := a.items(1)[0]
	if it.Error != nil || it.Usage.PeakRSS < hog || it.Usage.CPU <= 0 {
		t.Errorf("usage is %+v, error %v", it.Usage, it.Error)
	}
}

func TestShortRunsHaveMemoryToo(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	var runs []comms.Run
	for range 20 {
		runs = append(runs, a.run(k, inline(t, reg, 1)))
	}
	a.dispatch(runs...)
	for _, it := range a.items(20) {
		if it.Usage.PeakRSS < 1<<20 {
			t.Errorf("run %d: %d bytes of private memory", it.Run, it.Usage.PeakRSS)
		}
	}
}

func TestCommandUsage(t *testing.T) {
	a, _ := startWithStore(t, testRegistry())
	a.dispatch(a.run(a.sh("x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 1; : \"$x\"", nil, nil)))
	it := a.items(1)[0]
	if it.Error != nil || it.Usage.PeakRSS < 30_000_000 || it.Usage.CPU <= 0 {
		t.Errorf("usage is %+v, error %v", it.Usage, it.Error)
	}
}

func TestRuntimeFollowsTheGrant(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	reg := &Registry{}
	func1(reg, "granted", granted, "n -> m")
	a := startExecutor(t, reg, comms.Welcome{})
	for _, tt := range []struct{ cpu, memory, procs, limit int64 }{
		{1000, 0, 1, math.MaxInt64}, {3000, 1 << 30, 3, 1 << 30}, {2500, 1 << 30, 3, 1 << 30}, {100, 2 << 30, 1, 2 << 30}, {0, 0, 1, math.MaxInt64},
	} {
		k := a.kind("granted", []string{"n"}, []string{"m"}, func(k *comms.Kind) { k.Resources = comms.Resources{CPU: tt.cpu, Memory: tt.memory} })
		a.dispatch(a.run(k, inline(t, reg, 1)))
		got := decoded[map[string]int64](t, reg, a.items(1)[0].Outputs[0])
		if got["procs"] != tt.procs || got["memory"] != tt.limit || got["cpu"] != tt.cpu {
			t.Errorf("grant %+v gives %v", tt, got)
		}
	}
	for cpu, want := range map[int64]int{0: 1, 1: 1, 1000: 1, 1001: 2, 4000: 4} {
		if got := cores(cpu); got != want {
			t.Errorf("%d thousandths are %d cores", cpu, got)
		}
	}
}

func TestLongRunIsReportedAsStarted(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	r := a.run(a.kind("wait", []string{"how"}, []string{"n"}), inline(t, reg, ""))
	a.dispatch(r)
	m := receive[*comms.Report](a)
	if len(m.Items) != 1 || m.Items[0].Kind != comms.ReportStarted || m.Items[0].Run != r.ID || m.Items[0].At == 0 {
		t.Errorf("reported %+v, want started", m.Items)
	}
	a.tell(&comms.Cancel{Run: r.ID, Why: comms.ErrorCancelled, Text: "enough"})
	a.items(1)
}

func TestTaskOf(t *testing.T) {
	task := TaskOf(context.Background())
	if task.Name != "" || task.Log == nil {
		t.Errorf("outside an executor the task is %+v", task)
	}
	v, err := Alloc[float32](context.Background(), 2, 3)
	if err != nil || len(v.Data) != 6 || len(v.Shape) != 2 {
		t.Errorf("outside an executor Alloc gives %+v, %v", v, err)
	}
	if _, err := Alloc[float32](context.Background(), -1); err == nil {
		t.Error("a negative extent was accepted")
	}
}
