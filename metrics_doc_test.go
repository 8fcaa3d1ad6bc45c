//go:build linux

package cascade_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/internal/metrics"
)

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:`(\\w+)`: ([\\w, ]+))? ?\\|")

// docs/metrics.md lists exactly the metrics that are registered, with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(text), -1) {
		values := strings.Split(strings.TrimSpace(m[3]), ", ")
		slices.Sort(values)
		listed[m[1]] = strings.Trim(m[2]+" "+strings.Join(values, ","), " ")
	}
	all := append(new(controller.Controller).Measures(), new(agent.Agent).Measures()...)
	if _, err := metrics.Registry(all); err != nil {
		t.Error(err)
	}
	labels := map[string][]string{}
	names := map[string]string{}
	for _, m := range all {
		names[m.Name] = m.Label[0]
		labels[m.Name] = append(labels[m.Name], m.Label[1])
	}
	for name, label := range names {
		slices.Sort(labels[name])
		if want := strings.Trim(label+" "+strings.Join(labels[name], ","), " "); listed[name] != want {
			t.Errorf("%s has %q, docs/metrics.md says %q", name, want, listed[name])
		}
		delete(listed, name)
	}
	if len(listed) > 0 {
		t.Errorf("docs/metrics.md lists what is not registered: %v", listed)
	}
}
