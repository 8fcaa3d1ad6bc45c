package ui

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cascade-run/cascade"
)

const job = "/api/v1/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0"

// What pages are told, whole.
func TestAnswers(t *testing.T) {
	s := serve(t, newFake(t), nil)
	for name, path := range map[string]string{
		"about": "/api/v1/about", "jobs": "/api/v1/topic/jobs", "hosts": "/api/v1/topic/hosts", "found": "/api/v1/jobs?filter=running",
		"job": "/api/v1/topic/job:01a21cb6-b173-7407-866c-911bbcf3f4e0", "picture": "/api/v1/topic/picture:01a21cb6-b173-7407-866c-911bbcf3f4e0",
		"tasks": job + "/tasks?filter=model", "task": job + "/task?name=model%5B2%5D", "log": job + "/log?task=model%5B1%5D",
		"timeline": job + "/timeline", "window": job + "/timeline?from=100&to=500", "use": "/api/v1/topic/use", "sessions": "/api/v1/topic/sessions", "calls": "/api/v1/topic/calls:01a21cb6-b173-7407-866c-911bbcf3f4e0", "memory": "/api/v1/topic/memory:01a21cb6-b173-7407-866c-911bbcf3f4e0",
	} {
		status, head, text := request(t, s, "GET", path, "", nil)
		if status != http.StatusOK || head.Get("Content-Type") != "application/json" || head.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: status %d, %v: %s", path, status, head, text)
		}
		golden(t, name, text)
	}
}

// A page elsewhere, a browser without the token, and whoever has another's name get nothing.
func TestRefusals(t *testing.T) {
	s := serve(t, newFake(t), nil)
	bare := func(r *http.Request) { r.Header.Del("Authorization") }
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	paths := []string{"/api/v1/about", "/api/v1/jobs", job + "/tasks", job + "/task", job + "/log", job + "/timeline", "/api/v1/topic/jobs", "/api/v1/stream?topics=jobs", job + "/cancel", "/api/v1/hosts/node7/drain", "/api/v1/nothing"}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if status, _, _ := request(t, s, method, path, "", bare); status != http.StatusUnauthorized {
				t.Errorf("%s %s without a token: %d", method, path, status)
			}
		}
	}
	for _, c := range []struct {
		what, method, path string
		edit               func(*http.Request)
		want               int
	}{
		{"another token", "GET", "/api/v1/about", header("Authorization", "Bearer "+strings.ToUpper(token)), 401},
		{"the token in the address", "GET", "/api/v1/about?token=" + token, bare, 401},
		{"another scheme", "GET", "/api/v1/about", header("Authorization", token), 401},
		{"a name that points here", "GET", "/", host("evil.example:80"), 421},
		{"a name that points here, of a file", "GET", "/app.js", host("evil.example"), 421},
		{"a name that begins alike", "GET", "/", host("127.0.0.1.evil.example"), 421},
		{"a page of another site", "POST", job + "/cancel", header("Sec-Fetch-Site", "cross-site"), 403},
		{"a page of a site of this host", "GET", "/api/v1/about", header("Sec-Fetch-Site", "same-site"), 403},
		{"a change by GET", "GET", job + "/cancel", nil, 404},
		{"no such path", "GET", "/api/v1/nothing", nil, 404},
		{"a path above", "GET", "/..%2f..%2fgo.mod", nil, 404},
		{"no such job", "GET", "/api/v1/topic/job:zz", nil, 400},
		{"no such action", "POST", job + "/explode", nil, 400},
		{"no such task", "GET", job + "/task?name=nosuch", nil, 404},
		{"a time that is none", "GET", job + "/timeline?from=NaN", nil, 400},
		{"a cursor that is none", "GET", job + "/tasks?cursor=!", nil, 400},
		{"too many topics", "GET", "/api/v1/stream?topics=" + strings.Repeat("jobs,", 16) + "hosts", nil, 400},
	} {
		status, _, text := request(t, s, c.method, c.path, "", c.edit)
		if status != c.want {
			t.Errorf("%s: %s %s: %d, want %d: %s", c.what, c.method, c.path, status, c.want, text)
		}
	}
}

// Every answer carries the policy, and no file of the page needs more than it permits.
func TestPolicy(t *testing.T) {
	s := serve(t, newFake(t), nil)
	all, err := readFiles()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := regexp.MustCompile(`https?://[^\s"'<)]*`)
	imports := regexp.MustCompile(`(?m)^import .* from "\./([^"]+)";`)
	first := 0
	for path, f := range all {
		status, head, text := request(t, s, "GET", path, "", nil)
		if status != http.StatusOK || head.Get("Content-Security-Policy") != policy || head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d, %v", path, status, head)
		}
		if !strings.HasSuffix(path, ".txt") && path != "/" {
			first += len(f.packed)
		}
		if strings.Contains(path, "LICENSES") {
			continue
		}
		for _, url := range elsewhere.FindAllString(text, -1) {
			if !strings.HasPrefix(url, "http://www.w3.org/") { // names of formats
				t.Errorf("%s names %s", path, url)
			}
		}
		if strings.HasPrefix(path, "/vendor/") {
			continue
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "dangerously", "style=\"", "onclick="} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			if all["/"+m[1]] == nil {
				t.Errorf("%s imports %s, which is not there", path, m[1])
			}
		}
	}
	if most := 60_000; first > most {
		t.Errorf("the first load has %d bytes packed, want at most %d", first, most)
	}
	status, head, _ := request(t, s, "GET", "/app.js", "", func(r *http.Request) { r.Header.Set("If-None-Match", all["/app.js"].tag) })
	if status != http.StatusNotModified || head.Get("ETag") == "" {
		t.Errorf("a file that the browser has: %d", status)
	}
}

// The page has a word for each state that the cluster tells.
func TestWords(t *testing.T) {
	words, err := static.ReadFile("static/words.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"queued", "held", "waiting", "ready", "running", "done", "failed", "skipped", "cancelled", "away", "connecting", "leaving"} {
		if !strings.Contains(string(words), " "+state+": [") {
			t.Errorf("words.js has no word for %s", state)
		}
	}
}

// An action goes to the cluster, which alone decides who may; its words reach the page.
func TestActions(t *testing.T) {
	f := newFake(t)
	s := serve(t, f, nil)
	for _, c := range []struct{ path, body, want string }{
		{job + "/hold", `{"reason": "disk is full"}`, `2 [] "disk is full (by the page)"`},
		{job + "/release", ``, `3 [] "by the page"`},
		{job + "/cancel", `{}`, `1 [] "by the page"`},
		{job + "/rerun", `{"tasks": ["model[1]"]}`, `5 [model[1]] "by the page"`},
		{job + "/remove", `{}`, `4 [] "by the page"`},
		{"/api/v1/hosts/node7/drain", `{}`, `drain node7 "by the page"`},
	} {
		f.did = nil
		if status, _, text := request(t, s, "POST", c.path, c.body, nil); status != http.StatusOK || fmt.Sprint(f.did) != "["+c.want+"]" {
			t.Errorf("%s: %d %s, did %v, want %s", c.path, status, text, f.did, c.want)
		}
	}
	for path, body := range map[string]string{job + "/hold": `{"tasks": ["x"]}`, job + "/cancel": `{"reasom": ""}`, job + "/rerun": `{"reason": "` + strings.Repeat("x", 1001) + `"}`} {
		f.did = nil
		if status, _, text := request(t, s, "POST", path, body, nil); status != http.StatusBadRequest || len(f.did) > 0 {
			t.Errorf("%s %s: %d %s, did %v", path, body, status, text, f.did)
		}
	}
	f.refuse = fmt.Errorf("cancel job: %w: this needs the role submit", cascade.ErrDenied)
	status, _, text := request(t, s, "POST", job+"/cancel", `{}`, nil)
	if status != http.StatusForbidden || !strings.Contains(text, "needs the role submit") {
		t.Errorf("an action that is not permitted: %d %s", status, text)
	}
}

// Text of others comes as it is, as data.
func TestHostileText(t *testing.T) {
	f := newFake(t)
	s := serve(t, f, nil)
	_, head, text := request(t, s, "GET", "/api/v1/topic/jobs", "", nil)
	var got struct {
		Open struct{ Rows []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Open.Rows[0].Name != "fc "+evil || strings.Contains(text, "<img") || !strings.HasPrefix(head.Get("Content-Type"), "application/json") {
		t.Errorf("a hostile name: %q in %s", got.Open.Rows[0].Name, text)
	}
}

// Of a long log a page gets the end, and then what is new.
func TestLongLog(t *testing.T) {
	f := newFake(t)
	f.log = []byte(strings.Repeat("x", 10<<20) + "\nlast\xff")
	s := serve(t, f, nil)
	type piece struct {
		From, Next, Total uint64
		Text              string
	}
	read := func(query string) (p piece) {
		status, _, text := request(t, s, "GET", job+"/log?task=model%5B1%5D"+query, "", nil)
		if err := json.Unmarshal([]byte(text), &p); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v", status, err)
		}
		return p
	}
	p := read("")
	if len(p.Text) > logBytes+2 || p.Total != uint64(len(f.log)) || p.Next != p.Total || !strings.HasSuffix(p.Text, "\nlast\ufffd") {
		t.Fatalf("from %d to %d of %d, %d bytes", p.From, p.Next, p.Total, len(p.Text))
	}
	f.log = append(f.log, " more"...)
	if p := read(fmt.Sprint("&from=", p.Next)); p.Text != " more" || p.Next != p.Total {
		t.Fatalf("%+v", p)
	}
	if p := read("&from=99999999"); p.Text != "" {
		t.Fatalf("%+v", p)
	}
}

// A stream tells the newest of each topic.
func TestStream(t *testing.T) {
	s := serve(t, newFake(t), nil)
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/stream?topics=jobs,job:01a21cb6-b173-7407-866c-911bbcf3f4e0", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	if answer.Header.Get("Content-Type") != "text/event-stream" || answer.Header.Get("Content-Security-Policy") == "" {
		t.Fatal(answer.Header)
	}
	heard := map[string]bool{}
	for lines := bufio.NewScanner(answer.Body); len(heard) < 2 && lines.Scan(); {
		if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
			heard[name] = true
		}
	}
	if !heard["jobs"] || !heard["job:01a21cb6-b173-7407-866c-911bbcf3f4e0"] {
		t.Fatal(heard)
	}
}

// All who look at a job share one watch, which ends when nobody has looked for a while.
func TestTopicIsShared(t *testing.T) {
	f := newFake(t)
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Source: f, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		const name = "job:01a21cb6-b173-7407-866c-911bbcf3f4e0"
		var leave []func()
		for range 10 {
			topic, gone, err := h.look(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := topic.first(t.Context()); err != nil {
				t.Fatal(err)
			}
			leave = append(leave, gone)
		}
		if synctest.Wait(); f.most != 1 || f.watches != 1 {
			t.Fatalf("%d watches, %d at most", f.watches, f.most)
		}
		for _, gone := range leave {
			gone()
			gone() // a second time counts for nothing
		}
		if synctest.Wait(); f.watches != 1 {
			t.Fatal("the watch ended with the last viewer: the next page would begin anew")
		}
		_, gone, err := h.look(name) // comes back in time
		if err != nil {
			t.Fatal(err)
		}
		rest(t.Context(), 2*lingers)
		if synctest.Wait(); f.watches != 1 {
			t.Fatal("the watch ended while a page looked")
		}
		gone()
		rest(t.Context(), 2*lingers)
		if synctest.Wait(); f.watches != 0 || len(h.topics.open) != 0 {
			t.Fatalf("%d watches, %d topics though no page looks", f.watches, len(h.topics.open))
		}
	})
}

// The number of topics is bounded.
func TestTopicsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Source: newFake(t), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for i := range mostTopics {
			if _, _, err := h.look(fmt.Sprintf("job:01a21cb6-b173-7407-866c-%012x", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := h.look("jobs"); statusOf(err) != http.StatusServiceUnavailable {
			t.Fatal(err)
		}
	})
}

// Of a large job only some tasks are asked for.
func TestLargeJob(t *testing.T) {
	f := newFake(t)
	f.progress.Groups[0].Total = 1_000_000
	s := serve(t, f, nil)
	_, _, text := request(t, s, "GET", "/api/v1/topic/picture:01a21cb6-b173-7407-866c-911bbcf3f4e0", "", nil)
	var p picture
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.Whole || p.Tasks != 1_000_004 || len(p.Causes) != 1 || len(p.Slow) != 1 || p.End != nil {
		t.Errorf("%+v", p)
	}
	young := newFake(t)
	young.progress.Groups[0].Total, young.progress.Started = 1_000_000, at.Add(-30*time.Second).UnixNano()
	request(t, serve(t, young, nil), "GET", "/api/v1/topic/picture:01a21cb6-b173-7407-866c-911bbcf3f4e0", "", nil)
	young.mu.Lock()
	defer young.mu.Unlock()
	for _, q := range young.queries {
		if q.Kind == "tasks" {
			t.Errorf("of a job that has run for 30 s it asked for %+v", q)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queries {
		if q.Kind == "plan" || q.Kind == "tasks" && (q.Filter == "" || q.Limit == 0 || q.Limit > someTasks) {
			t.Errorf("asked for %+v", q)
		}
	}
}

func TestListen(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "10.1.2.3:0", "example.org:80", "127.0.0.1"} {
		if s, err := Listen(address, Config{}); err == nil {
			t.Errorf("%s: served at %s", address, s.Addr())
		}
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} { // each is asked for by its own name
		s, err := Listen(host+":0", Config{Source: newFake(t)})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.URL(), "http://"+host+":") || !regexp.MustCompile(`/#t=[A-Za-z0-9_-]{43}$`).MatchString(s.URL()) {
			t.Error(s.URL())
		}
		page := httptest.NewRequest(http.MethodGet, "http://"+s.Addr()+"/", nil)
		got := httptest.NewRecorder()
		if s.handler.ServeHTTP(got, page); got.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", s.URL(), got.Code, got.Body)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A program that asks once is told by the status that there is no state, and not by its text alone.
func TestTopicsThatFail(t *testing.T) {
	for _, c := range []struct {
		topic string
		err   error
		want  int
	}{
		{"jobs", cascade.ErrUnavailable, http.StatusServiceUnavailable},
		{"hosts", cascade.ErrDenied, http.StatusForbidden},
		{"job:01a21cb6-b173-7407-866c-911bbcf3f4e0", cascade.ErrUnavailable, http.StatusServiceUnavailable},
		{"picture:01a21cb6-b173-7407-866c-911bbcf3f4e0", cascade.ErrNotFound, http.StatusNotFound},
		{"job:01a21cb6-b173-7407-866c-911bbcf3f4e0", cascade.ErrNotFound, http.StatusNotFound},
	} {
		f := newFake(t)
		f.broken = c.err
		status, _, text := request(t, serve(t, f, nil), http.MethodGet, "/api/v1/topic/"+c.topic, "", nil)
		if status != c.want || !strings.Contains(text, `"error"`) {
			t.Errorf("%s with %v: status %d, want %d: %s", c.topic, c.err, status, c.want, text)
		}
	}
}
