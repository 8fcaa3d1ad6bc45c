//go:build linux

package ui

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/internal/testing/tier"
)

// browser is Chromium, told what to do by its DevTools protocol over two pipes.
type browser struct {
	t       *testing.T
	to      io.WriteCloser
	session string
	ended   chan struct{} // the reader has seen the end

	mu       sync.Mutex
	last     int
	answers  map[int]chan reply
	wrong    []string // what the console says, and requests to others
	requests []string
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// browserTime bounds one answer of the browser: longer and it hangs.
const browserTime = 2 * time.Minute

// startBrowser starts Chromium, or skips the test where there is none.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("no Chromium is installed: apt-get install chromium")
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-crash-reporter", "--lang=en"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	cmd := exec.Command(program, append(args, "about:blank")...) //nolint:gosec // of a list
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, to: to, ended: make(chan struct{}), answers: map[int]chan reply{}}
	go b.read(from)
	t.Cleanup(func() {
		b.call("Browser.close", nil)
		if err := cmd.Wait(); err != nil {
			t.Logf("the end of the browser: %v", err)
		}
		<-b.ended
		_ = errors.Join(to.Close(), from.Close()) // its other ends are closed
	})
	return b
}

func (b *browser) read(from io.Reader) {
	defer close(b.ended)
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue
		}
		b.mu.Lock()
		if c := b.answers[m.ID]; c != nil && m.Method == "" {
			delete(b.answers, m.ID)
			c <- m.reply
		}
		b.heard(m.Method, m.Params)
		b.mu.Unlock()
	}
}

// heard notes what must not be.
func (b *browser) heard(method string, params json.RawMessage) {
	switch method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening":
		b.wrong = append(b.wrong, method+": "+string(params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(params, &p) == nil {
			b.requests = append(b.requests, p.Request.URL)
		}
	}
}

// call sends a command to the page and waits for its answer.
func (b *browser) call(method string, params map[string]any) json.RawMessage {
	b.t.Helper()
	b.mu.Lock()
	b.last++
	answer := make(chan reply, 1)
	b.answers[b.last] = answer
	m := map[string]any{"id": b.last, "method": method, "params": params}
	if params == nil {
		m["params"] = map[string]any{}
	}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") && !strings.HasPrefix(method, "Target.") {
		m["sessionId"] = b.session
	}
	b.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	hangs := time.NewTimer(browserTime)
	defer hangs.Stop()
	select {
	case r := <-answer:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		return r.Result
	case <-b.ended:
		if method != "Browser.close" {
			b.t.Fatalf("%s: the browser has ended", method)
		}
	case <-hangs.C:
		b.t.Fatalf("%s: the browser does not answer", method)
	}
	return nil
}

// open opens an address in a new page of a size.
func (b *browser) open(url string, width int, scheme string) {
	b.t.Helper()
	value := func(raw json.RawMessage, field string) string {
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			b.t.Fatal(err)
		}
		return fmt.Sprint(v[field])
	}
	target := value(b.call("Target.createTarget", map[string]any{"url": "about:blank"}), "targetId")
	b.session = value(b.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}), "sessionId")
	for _, domain := range []string{"Runtime", "Log", "Page", "Network"} {
		b.call(domain+".enable", nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 860, "deviceScaleFactor": 1, "mobile": false})
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	b.call("Page.navigate", map[string]any{"url": url})
}

// value evaluates JavaScript, and waits when it is a promise.
func (b *browser) value(script string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}), &r); err != nil {
		b.t.Fatal(err)
	}
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", script, r.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(r.Result.Value)
}

// shows waits until the page shows a text, and returns all that it shows.
func (b *browser) shows(text string) string {
	b.t.Helper()
	all := b.value(fmt.Sprintf(`new Promise((done) => { const end = Date.now() + 50000; const look = () => { const text = document.body ? document.body.innerText : "";
		if (text.includes(%q)) done(text); else if (Date.now() > end) done("not shown: " + text); else setTimeout(look, 20); }; look(); })`, text))
	if strings.HasPrefix(all, "not shown") {
		b.t.Fatalf("%q is %s", text, all)
	}
	return all
}

// pages are the parts of the page, and a text that each shows.
var pages = []struct{ path, shows string }{
	{"/", "<img src=x onerror=alert(1)> \\u001b[31mred"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0", "tasks of model usually take 1 h"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/graph", "producers above those that read them"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/time", "5 runs from 0 s to 2 h 30 min"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/tasks", "6 of 6 tasks shown"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/tasks/model%5B2%5D", "its family usually takes 1 h"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/errors", "exit: status 3 of <img src=x onerror=alert(1)>"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/log", "red \\u202efdp.exe"},
	{"/jobs/01a21cb6-b173-7407-866c-911bbcf3f4e0/calls", "1 of 1 call shown"},
	{"/sessions", "1 ended session of the newest 2 sessions shown"},
	{"/sessions/01a21cb6-b173-7407-866c-911bbcf3f4e0", "1 of 1 that failed"},
	{"/sessions/01a21cb6-b173-7407-866c-911bbcf3f4e0/values", "5 of 5 references shown"},
	{"/hosts", "6.2 of 8 work"},
}

// In a real browser every page comes up, the console stays empty, nothing asks another origin, and hostile
// text is text.
func TestInBrowser(t *testing.T) {
	b := startBrowser(t)
	s := serve(t, newFake(t), nil)
	b.open(s.URL+"/#t="+token, 1280, "light")
	b.shows("Not ended")
	for _, p := range pages {
		b.value(fmt.Sprintf("location.hash = %q", "#"+p.path))
		b.shows(p.shows)
		if n := b.value(`document.querySelectorAll("main img, main script, main iframe").length`); n != "0" {
			t.Errorf("%s: %s elements of hostile text", p.path, n)
		}
	}
	if hash := b.value("location.href"); strings.Contains(hash, token) {
		t.Errorf("the token is in the address: %s", hash)
	}
	// The same in a tab without the token: a sentence, not an error.
	b.open(s.URL+"/#/hosts", 400, "dark")
	b.shows("1 running on 8 cores") // another tab of the origin gave it
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, s.URL) && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			t.Errorf("the page asks %s", url)
		}
	}
	b.wrong = slices.DeleteFunc(b.wrong, func(w string) bool { return strings.Contains(w, "status of 401") }) // of the tab without a token
	if len(b.wrong) > 0 {
		t.Errorf("the console: %s", strings.Join(b.wrong, "\n"))
	}
}

// A page whose cluster's program ends says since when, and shows what is new when it is back.
func TestBrowserReconnects(t *testing.T) {
	tier.Nightly(t, "starts a browser for some seconds")
	b := startBrowser(t)
	f := newFake(t)
	one, err := Listen("127.0.0.1:0", Config{Source: f, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	address := one.Addr()
	b.open(one.URL()+"&at=/hosts", 1280, "light")
	b.shows("1 running on 8 cores")
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if text := b.shows("Not connected since"); !strings.Contains(text, "1 running on 8 cores") {
		t.Errorf("figures are not shown while there is no connection: %s", text)
	}
	f.hosts[0].Running = 5
	two, err := Listen(address, Config{Source: f, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if text := b.shows("5 running on 8 cores"); strings.Contains(text, "Not connected") {
		t.Error(text)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
}

// No page has a fault that axe-core finds. AXE names its file, axe.min.js of the npm package axe-core.
func TestAccessible(t *testing.T) {
	tier.Nightly(t, "looks at every page in two themes and two widths")
	file := os.Getenv("AXE")
	if file == "" {
		t.Skip("AXE does not name axe.min.js of the npm package axe-core")
	}
	axe, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t)
	s := serve(t, newFake(t), nil)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1280, 400} {
			b.open(s.URL+"/#t="+token, width, scheme)
			b.shows("Not ended")
			b.value(string(axe) + "; 1")
			for _, p := range pages {
				b.value(fmt.Sprintf("location.hash = %q", "#"+p.path))
				b.shows(p.shows)
				found := b.value(`axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 160) + " " + (n.any[0] || {}).message).join("; ")).join("\n"))`)
				if found != "" {
					t.Errorf("%s, %s, %d pixels: %s", p.path, scheme, width, found)
				}
				if over := b.value("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
					t.Errorf("%s, %s: %d pixels are too few by %s", p.path, scheme, width, over)
				}
			}
		}
	}
}
