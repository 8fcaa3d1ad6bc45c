//go:build linux

package perf_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/perf"
)

func TestMain(m *testing.M) {
	perf.Register()
	cascade.Main()
	perf.Part()
	cascade.RunTests(m)
}

// TestQuick runs every figure in its small size: names, units, numbers. Run itself
// compares what `ls tasks` prints with the tasks of each job. Names tell the small sizes.
func TestQuick(t *testing.T) {
	defer goleak.VerifyNone(t)
	var told, left []string
	o := perf.Options{State: t.TempDir(), Quick: true, Skip: func(name, why string) {
		t.Logf("%s: %s", name, why)
		left = append(left, name)
	}}
	err := perf.Run(t.Context(), o, func(f perf.Figure) error {
		t.Logf("%+v", f)
		told = append(told, f.Name)
		if f.Value <= 0 || f.Baseline <= 0 || f.Ratio <= 0 || f.Unit == "" || f.BaselineOf == "" {
			t.Errorf("%+v: want a value, a unit and a baseline", f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"noop_independent", "noop_submits", "noop_fused", "chain_step", "chain_step_queued",
		"task_latency_p50", "task_latency_p99", "final_fsync_p50", "put_1MiB", "put_inplace_1MiB", "put_1KiB_iops", "get_latency",
		"call_latency_p50", "calls_async", "calls_async_cpu", "calls_nested", "calls_nested_cpu", "wait_50", "wait_500", "put_1KiB", "call_memory",
		"actor_call", "actor_call_exact", "actor_calls_async", "actor_calls_async_cpu", "actor_calls_exact", "actor_calls_exact_cpu", "actor_create", "actor_restart",
		"submit_1k", "plan_1k", "yaml_1k", "metg50_stencil_wide", "metg50_stencil_narrow",
		"python_noop", "python_noop_p50", "python_array_handover_8MiB",
		"python_call_latency_p50", "python_calls_async", "python_calls_async_cpu", "python_wait_50", "python_put_1KiB", "python_get_8MiB",
		"env_cold", "env_layered", "env_warm", "env_bulky_shared", "control_rss_5k", "gcs_commit", "gcs_commit_fsync_p99",
	} {
		if (strings.HasPrefix(name, "python") || strings.HasPrefix(name, "env_")) && slices.Contains(left, name) && os.Getenv("CASCADE_REQUIRE_PYTHON") == "" {
			continue
		}
		busy := slices.Contains(left, name) && (name == "metg50_stencil_wide" || name == "metg50_stencil_narrow")
		if !slices.Contains(told, name) && !busy {
			t.Errorf("no figure %s", name)
		}
	}
	if len(told)+len(left) != len(perf.Names()) {
		t.Errorf("%d figures and %d left out, want %d once each", len(told), len(left), len(perf.Names()))
	}
}

func TestOnly(t *testing.T) {
	var told []string
	note := func(f perf.Figure) error {
		told = append(told, f.Name)
		return nil
	}
	o := perf.Options{State: t.TempDir(), Quick: true, Only: []string{"control_rss_1m", "plan_1k"}}
	if err := os.Mkdir(filepath.Join(o.State, "embedded"), 0o700); err != nil { // a perf before this one was killed as it began
		t.Fatal(err)
	}
	if err := perf.Run(t.Context(), o, note); err != nil || !slices.Equal(told, []string{"control_rss_5k", "plan_1k"}) {
		t.Errorf("got %v, %v", told, err)
	}
	o.Only = []string{"speed"}
	if err := perf.Run(t.Context(), o, note); !errors.Is(err, perf.ErrNoFigure) {
		t.Errorf("got %v", err)
	}
}
