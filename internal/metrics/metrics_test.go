package metrics_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func some(n float64) []metrics.Measure {
	read := func() float64 { return n }
	return []metrics.Measure{
		{Name: "cascade_test_links", Help: "Links.", Label: [2]string{"role", "agent"}, Read: read},
		{Name: "cascade_test_links", Help: "Links.", Label: [2]string{"role", "client"}, Read: read},
		{Name: "cascade_test_jobs_total", Help: "Jobs.", Read: read},
	}
}

func TestServe(t *testing.T) {
	s, err := metrics.Serve("0", some(7))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
		t.Errorf("without a host it listens at %s", s.Addr())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		name, path, host, origin string
		code                     int
		want                     string
	}{
		{"metrics", "/metrics", "", "", 200, "cascade_test_links{role=\"agent\"} 7\n"},
		{"counters", "/metrics", "localhost:1", "", 200, "# TYPE cascade_test_jobs_total counter\ncascade_test_jobs_total 7\n"},
		{"the process", "/metrics", "", "", 200, "process_open_fds"},
		{"another host's name", "/metrics", "evil.example", "", 403, "ask by this host's address"},
		{"a web page", "/metrics", "", "https://evil.example", 403, "not for web pages"},
		{"elsewhere", "/", "", "", 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			got, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			b, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != c.code || !strings.Contains(string(b), c.want) {
				t.Errorf("%d %s, %v; want %d %q", got.StatusCode, b, err, c.code, c.want)
			}
		})
	}
	if _, err := metrics.Serve("nowhere", nil); err == nil {
		t.Error("it listens nowhere")
	}
	if _, err := metrics.Registry(append(some(1), some(1)...)); err == nil {
		t.Error("one name was registered twice")
	}
}
