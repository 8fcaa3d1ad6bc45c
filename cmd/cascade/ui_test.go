package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

// The page of a job that runs: its address alone shows it, an action of it reaches the cluster, and its audit
// log; an interrupt ends the page, not the job.
func TestPageOfARun(t *testing.T) {
	h := newHost(t)
	one := h.gate("one")
	run := h.start("", "run", one.file)
	one.runs()
	page, base, rest := openPage(t, h, "one")
	token, at, named := strings.Cut(rest, "&at=")
	id, isJob := strings.CutPrefix(at, "/jobs/")
	if !named || !isJob {
		t.Fatalf("the address %s names no job", rest)
	}
	ask := func(method, path, bearer string) (int, string) {
		t.Helper()
		answer := request(t, method, base+path, bearer)
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(b)
	}
	awaitTopic(t, base, token, "job:"+id, `"running":1`) // the controller has heard that it began
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

// openPage starts the page, and returns where it is and what is behind # in its address.
func openPage(t *testing.T, h *host, args ...string) (page *call, base, rest string) {
	t.Helper()
	page = h.start("", append([]string{"ui", "--port", "0", "--json"}, args...)...)
	await(t, &page.out, "}\n")
	var told struct{ URL string }
	if err := json.Unmarshal([]byte(page.out.String()), &told); err != nil {
		t.Fatal(err)
	}
	base, rest, _ = strings.Cut(told.URL, "/#t=")
	return page, base, rest
}

// request asks the page; the caller closes the body of the answer.
func request(t *testing.T, method, url, bearer string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// awaitTopic reads states of a topic until one has all texts.
func awaitTopic(t *testing.T, base, token, topic string, wants ...string) {
	t.Helper()
	answer := request(t, http.MethodGet, base+"/api/v1/stream?topics="+topic, token)
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	last, has := "", false
	for !has && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		last, has = data, true
		for _, want := range wants {
			has = has && strings.Contains(data, want)
		}
	}
	if err := errors.Join(lines.Err(), answer.Body.Close()); err != nil || !has {
		t.Errorf("%s: want %q, the last state was %s: %v", topic, wants, last, err)
	}
}

// The page of a session has its calls, those that ended and that which runs, and what is kept of it; that of hosts has their use.
func TestPageOfASession(t *testing.T) {
	h := newHost(t)
	cluster, err := cascade.Local(t.Context(), cascade.WithState(h.state), cascade.WithCPU(2))
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.Session(t.Context(), cascade.WithSessionName("work"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := twiceTask.Go(s.Context(), cascade.Val(4)).Get(s.Context()); err != nil || n != 8 {
		t.Errorf("twice 4 is %d, %v", n, err)
	}
	kept, err := cascade.Put(s.Context(), make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	page, base, rest := openPage(t, h, "work")
	token, at, _ := strings.Cut(rest, "&at=/jobs/")
	for topic, wants := range map[string][]string{
		"sessions":     {`"name":"session work"`, `"running":0`},
		"calls:" + at:  {`"ended":1`, `"whole":true`, `"function":"Twice"`, `"done":1`},
		"memory:" + at: {`"kind":"value"`, `"size":1048`},
		"hosts":        {`"busy_cores":`, `"memory_used":`},
		"use":          {`"agent":"local"`},
	} {
		awaitTopic(t, base, token, topic, wants...)
	}
	page.interrupts <- os.Interrupt
	page.wait()
	kept.Release()
	if err := errors.Join(s.Close(t.Context()), cluster.Close()); err != nil {
		t.Error(err)
	}
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
