package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
	testoutput "github.com/cascade-run/cascade/internal/testing/output"
)

// The page of a controller: its address is in a file of its user alone, which goes with it.
func TestPage(t *testing.T) {
	dir, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	signals := make(chan os.Signal, 1)
	r, w := io.Pipe()
	code := make(chan int, 1)
	var errs testoutput.Buffer
	go func() {
		code <- run([]string{"--state", dir, "--durability=crash", "--min-free", "1MiB", "--ui", "127.0.0.1:0"}, w, &errs, signals)
		_ = w.Close() // ends the scan below when it never became ready
	}()
	if lines := bufio.NewScanner(r); !lines.Scan() {
		t.Fatalf("no address; code %d: %s", <-code, errs.String())
	}
	for {
		have, more := errs.Next()
		if strings.Contains(have, "ui.url") {
			break
		}
		<-more
	}
	file := filepath.Join(dir, pageFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	base, token, _ := strings.Cut(strings.TrimSpace(string(text)), "/#t=")
	q, err := http.NewRequestWithContext(t.Context(), "GET", base+"/api/v1/topic/hosts", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Close = true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"hosts":[]`) {
		t.Errorf("%d %s %v", answer.StatusCode, body, err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	signals <- os.Interrupt
	if c := <-code; c != daemon.ExitOK {
		t.Errorf("exit code %d: %s", c, errs.String())
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the address is left: %v", err)
	}
}
