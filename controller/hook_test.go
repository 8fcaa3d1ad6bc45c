package controller

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/planner"
)

// The hook is told which job is late; one that fails is an error with its words, and
// none outlives the controller.
func TestLateHook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "late")
	c := &Controller{quit: make(chan struct{})}
	c.cfg.LateHook = []string{"/bin/sh", "-c", `printf '%s: %s' "$CASCADE_JOB_NAME" "$CASCADE_LATE" >` + file}
	a := core.Warn{Job: testJob(1), Name: "forecast", Text: "b is predicted to end late"}
	if err := c.hook(a); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "forecast: b is predicted to end late" {
		t.Errorf("%q, %v", b, err)
	}
	c.cfg.LateHook = []string{"/bin/sh", "-c", "echo no pager; exit 3"}
	if err := c.hook(a); err == nil || !strings.Contains(err.Error(), "no pager") {
		t.Errorf("%v", err)
	}
	close(c.quit)
	c.cfg.LateHook = []string{"/bin/sleep", "3600"}
	if err := c.hook(a); err == nil {
		t.Error("a hook that sleeps for an hour ended well")
	}
}

// An address is posted to; what answers that it failed, or not at all, is an error.
func TestLateWebhook(t *testing.T) {
	got := make(chan string, 3)
	status, quit := http.StatusNoContent, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.Method, " ", r.Header.Get("Content-Type"), " ", string(b), " ", err)
		if status == 0 { // it says nothing
			close(quit)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent {
			fmt.Fprint(w, "no pager")
		}
	}))
	defer server.Close()
	c := &Controller{quit: make(chan struct{})}
	c.cfg.LateHook = []string{server.URL + "/late"}
	a := core.Warn{Job: testJob(1), Name: "forecast", Tenant: "ann", Text: "b is predicted to end \"late\""}
	want := `POST application/json {"job":"` + a.Job.String() + `","late":"b is predicted to end \"late\"","name":"forecast","tenant":"ann"} <nil>`
	if err := c.hook(a); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got != want {
		t.Errorf("posted %s\nwant %s", got, want)
	}
	status = http.StatusBadGateway
	if err := c.hook(a); err == nil || !strings.Contains(err.Error(), "502 Bad Gateway: no pager") {
		t.Errorf("%v", err)
	}
	status = 0
	go func() { <-quit; close(c.quit) }()
	if err := c.hook(a); err == nil {
		t.Error("a hook that says nothing ended well when the controller did")
	}
}

// What is secret in an address, which may be any of it but scheme and host, is in no error.
func TestLateWebhookHidesItsAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hooks/secret":
			w.WriteHeader(http.StatusBadGateway)
		default: // it sends on for ever
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	host, of := strings.TrimPrefix(server.URL, "http://"), strings.TrimPrefix(gone.URL, "http://")
	for _, tt := range []struct{ address, want string }{
		{"http://" + host + "/hooks/secret", "late hook http://" + host + ": it answered 502 Bad Gateway: "},
		{"http://ann:secret@" + host + "/hooks/secret?token=secret", "late hook http://" + host + ": it answered 502 Bad Gateway: "},
		{"http://" + host + "/on?token=secret", "late hook http://" + host + ": stopped after 10 redirects"},
		{"http://ann:secret@" + of + "/late?token=secret", "late hook http://" + of + ": dial tcp " + of + ": connect: connection refused"},
		{"http://host/%zzsecret", "late hook: its address is no URL"},
		{"http:///secret", "late hook http://: http: no Host in request URL"},
	} {
		c := &Controller{quit: make(chan struct{})}
		c.cfg.LateHook = []string{tt.address}
		if err := c.hook(core.Warn{Job: testJob(1)}); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.address, err, tt.want)
		}
	}
}

// One hook runs at a time, a bounded number waits, and of what one writes the end is kept.
func TestHooksAreBounded(t *testing.T) {
	folder := t.TempDir()
	c := &Controller{quit: make(chan struct{}), log: zerolog.Nop()}
	c.cfg.LateHook = []string{"/bin/sh", "-c", `mkdir "$0/lock" && echo "$CASCADE_JOB_NAME" >>"$0/ran" && rmdir "$0/lock"`, folder}
	c.hooks.busy = true // one runs
	for i := range maxHooks + 5 {
		c.warn(core.Warn{Job: testJob(1), Name: strconv.Itoa(i), Text: "late"})
	}
	c.work.Wait()
	if n := len(c.hooks.waiting); n != maxHooks {
		t.Fatalf("%d wait, want %d", n, maxHooks)
	}
	c.hooks.waiting = c.hooks.waiting[:3]
	c.hooks.leave()
	c.work.Go(c.runHooks)
	c.work.Go(c.runHooks)
	c.work.Wait()
	if b, err := os.ReadFile(filepath.Join(folder, "ran")); err != nil || string(b) != "0\n1\n2\n" {
		t.Errorf("ran %q, %v", b, err)
	}
	c.cfg.LateHook = []string{"/bin/sh", "-c", "echo first; head -c 100000 /dev/zero | tr '\\0' x; echo last; exit 3"}
	if err := c.hook(core.Warn{}); err == nil || len(err.Error()) > maxTail+200 || !strings.Contains(err.Error(), "xlast") || strings.Contains(err.Error(), "first") {
		t.Errorf("%.300v", err)
	}
}

// Searches that wait are bounded: a job that finds no room is told that there is no plan.
func TestSearchesAreBounded(t *testing.T) {
	c := &Controller{quit: make(chan struct{}), planning: make(chan struct{}, 1), searches: make(chan struct{}, maxSearches)}
	c.planning <- struct{}{} // one is under way
	for i := range maxSearches + 1 {
		c.improve(core.Improve{Token: uint64(i), First: &planner.Plan{}})
	}
	if want := []core.Event{core.Improved{Token: maxSearches}}; !reflect.DeepEqual(c.local, want) {
		t.Errorf("answered %v, want %v", c.local, want)
	}
	close(c.quit)
	c.work.Wait()
}
