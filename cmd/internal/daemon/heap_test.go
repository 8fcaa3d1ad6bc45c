package daemon

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestPercentOf(t *testing.T) {
	for _, c := range []struct {
		live uint64 // MiB
		want int
	}{
		{0, 800}, {3, 800}, // Go's own floor is ours then
		{4, 700}, {8, 300}, {12, 166},
		{16, 100}, {17, 100}, {32, 100}, {33, 100}, {1 << 20, 100},
	} {
		if got := percentOf(c.live << 20); got != c.want {
			t.Errorf("of %d MiB: %d, want %d", c.live, got, c.want)
		}
	}
}

// Who sets them has decided.
func TestKeepHeapOfUser(t *testing.T) {
	for _, set := range []string{"GOGC", "GOMEMLIMIT"} {
		before := gogc()
		KeepHeap(func(name string) string { return map[string]string{set: "50"}[name] })
		if now := gogc(); now != before {
			t.Errorf("with %s GOGC is %d, it was %d", set, now, before)
		}
	}
}

// A heap that grows is collected at twice its size, and at the floor when it is small again. In
// a process of its own: what is set goes on for as long as that lives.
func TestKeepHeap(t *testing.T) {
	const child = "CASCADE_TEST_KEEP_HEAP"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeepHeap$")
		cmd.Env = append(os.Environ(), child+"=1", "GOGC=", "GOMEMLIMIT=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	debug.SetGCPercent(goPercent)
	KeepHeap(func(string) string { return "" })
	collectUntil(t, "above 100", func(percent int) bool { return percent > goPercent })
	live := make([][]byte, 64)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	collectUntil(t, "100", func(percent int) bool { return percent == goPercent })
	runtime.KeepAlive(live)
	collectUntil(t, "above 100", func(percent int) bool { return percent > goPercent })
}

// collectUntil collects until GOGC is as wanted: a goroutine of its own sets it after a collection.
func collectUntil(t *testing.T, want string, is func(percent int) bool) {
	t.Helper()
	for range 10_000 {
		if is(gogc()) {
			return
		}
		runtime.GC()
	}
	t.Fatalf("GOGC is %d, want %s", gogc(), want)
}

// gogc is the percentage that is in force.
func gogc() int {
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(percent)
	return int(percent[0].Value.Uint64())
}
