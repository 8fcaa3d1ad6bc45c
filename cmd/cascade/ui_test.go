package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// The page of a job that runs: its address alone shows it, an action of it reaches the cluster, and its audit
// log; an interrupt ends the page, not the job.
func TestPageOfARun(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	run := h.start("", "run", one.file)
	one.runs()
	page := h.start("", "ui", "one", "--port", "0", "--json")
	await(t, &page.out, "}\n")
	var told struct{ URL string }
	if err := json.Unmarshal([]byte(page.out.String()), &told); err != nil {
		t.Fatal(err)
	}
	base, rest, _ := strings.Cut(told.URL, "/#t=")
	token, at, named := strings.Cut(rest, "&at=")
	id, isJob := strings.CutPrefix(at, "/jobs/")
	if !named || !isJob {
		t.Fatalf("the address %s names no job", told.URL)
	}
	ask := func(method, path, bearer string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(b)
	}
	for path, want := range map[string]string{
		"/api/v1/topic/jobs": id, "/api/v1/topic/hosts": `"state":"ready"`, "/api/v1/topic/job:" + id: `"phase":"running"`,
		"/api/v1/topic/picture:" + id: `"whole":true`, "/api/v1/jobs/" + id + "/tasks?filter=running": `"state":"running"`, "/api/v1/jobs/" + id + "/timeline": `"tasks":1`,
	} {
		if status, text := ask("GET", path, token); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s in it", path, status, text, want)
		}
		if status, text := ask("GET", path, "another"); status != http.StatusUnauthorized {
			t.Errorf("%s with another token: %d %s", path, status, text)
		}
	}
	for action, phase := range map[string]string{"hold": "held"} {
		if status, text := ask("POST", "/api/v1/jobs/"+id+"/"+action, token); status != http.StatusOK {
			t.Errorf("%s: %d %s", action, status, text)
		}
		if got := h.start("", "status", "one").wait(); !strings.Contains(got, phase) {
			t.Errorf("after %s: %s", action, got)
		}
	}
	if status, text := ask("POST", "/api/v1/jobs/"+id+"/release", token); status != http.StatusOK {
		t.Errorf("release: %d %s", status, text)
	}
	page.interrupts <- os.Interrupt
	if got := page.wait(); strings.Contains(got, "2>") || strings.HasPrefix(got, "exit") {
		t.Error(got)
	}
	one.open("a")
	h.expect(run, "job one done")
}

func TestPageMistakes(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct{ args, want string }{
		{"ui", "no job has run here yet"},
		{"ui --port 70000", "want a number from 0 to 65535"},
		{"ui a b", "one argument too many"},
	} {
		if got := h.start("", strings.Fields(c.args)...).wait(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", c.args, got, c.want)
		}
	}
}
