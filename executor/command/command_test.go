package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLookUp(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	write := func(folder, name string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, local := write(bin, "good", 0o755), write(dir, "local", 0o755)
	write(bin, "plain", 0o644)
	path := []string{"PATH=/nowhere", "PATH=.::/no/such:" + bin}
	tests := []struct {
		name, dir string
		env       []string
		want, err string
	}{
		{"good", dir, path, good, ""},
		{"./local", dir, path, local, ""},
		{local, "", path, local, ""},
		{"local", dir, path, "", `"local" is not in PATH`},
		{"good", dir, []string{"PATH=/nowhere"}, "", "not in PATH (/nowhere)"},
		{"good", dir, nil, "", "not in PATH ()"},
		{"plain", dir, path, "", "chmod +x"},
		{"./absent", dir, path, "", "no such file"},
		{dir, "", path, "", "is a folder"},
		{"", dir, path, "", "first word of the command is empty"},
		{"good", dir + "/absent", path, "", "working folder"},
		{"good", good, path, "", "is not a folder"},
	}
	for _, tt := range tests {
		got, err := lookUp(tt.name, tt.dir, tt.env)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s in %s: %q, %v; want %q, %q", tt.name, tt.dir, got, err, tt.want, tt.err)
		}
	}
}

func TestSignalNames(t *testing.T) {
	if got := signalName(syscall.SIGKILL) + " " + signalName(syscall.Signal(40)); got != "SIGKILL signal 40" {
		t.Error(got)
	}
}

// run runs a shell script and returns what was captured of each stream. It does not
// return when something holds a stream that has to be ended with the script.
func run(t *testing.T, ctx context.Context, script string, change func(*Spec)) (Result, [3]string, error) {
	t.Helper()
	s := Starter{drain: time.Hour}
	defer s.Close()
	var mu sync.Mutex
	var out [3]bytes.Buffer
	spec := Spec{Args: []string{"sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir(),
		Output: func(stream uint8, text []byte) {
			mu.Lock()
			defer mu.Unlock()
			out[stream].Write(text)
		},
		Grace: func() time.Duration { return time.Minute },
	}
	if change != nil {
		change(&spec)
	}
	r, err := s.Run(ctx, spec)
	return r, [3]string{"", out[1].String(), out[2].String()}, err
}

func TestRun(t *testing.T) {
	in, err := os.Open("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, tt := range []struct {
		name, script string
		change       func(*Spec)
		want         Result
		out, err     string
	}{
		{"both streams", "echo a; echo b >&2", nil, Result{}, "a\n", "b\n"},
		{"status", "exit 7", nil, Result{ExitCode: 7}, "", ""},
		{"signal", "kill -ABRT $$", nil, Result{ExitCode: -1, Signal: "SIGABRT"}, "", ""},
		{"no input", "cat", nil, Result{}, "", ""},
		{"input", "head -c 9", func(s *Spec) { s.Stdin = in }, Result{}, "// Packag", ""},
		{"output to a file", "echo hidden", func(s *Spec) { s.Stdout = out }, Result{}, "", ""},
		{"session of its own", "[ $(ps -o sid= -p $$) = $$ ] && echo leader", nil, Result{}, "leader\n", ""},
		{"a child holds the pipe", "sleep 1000 & echo done", nil, Result{}, "done\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, got, err := run(t, context.Background(), tt.script, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if r.ExitCode != tt.want.ExitCode || r.Signal != tt.want.Signal || got[1] != tt.out || got[2] != tt.err {
				t.Errorf("ended with %+v, printed %q and %q", r, got[1], got[2])
			}
		})
	}
	if b, err := os.ReadFile(out.Name()); err != nil || string(b) != "hidden\n" {
		t.Errorf("file holds %q, %v", b, err)
	}
}

func TestContextEndsTheGroup(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		ctx, cancel := context.WithCancel(context.Background())
		ready := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(ready, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			f, err := os.Open(ready) // opens when the script does
			if err == nil {
				f.Close()
			}
			cancel()
		}()
		script := fmt.Sprintf("sleep 1000 & : > %s; wait", ready)
		r, _, err := run(t, ctx, script, func(s *Spec) { s.Grace = func() time.Duration { return grace } })
		if err != nil || r.ExitCode != -1 || r.Signal != "SIGTERM" && r.Signal != "SIGKILL" {
			t.Errorf("grace %s: ended with %+v, %v", grace, r, err)
		}
	}
}

func TestClosedStarterRefuses(t *testing.T) {
	for _, used := range []bool{false, true} {
		var s Starter
		spec := Spec{Args: []string{"true"}, Env: os.Environ(), Output: func(uint8, []byte) {}}
		if used {
			if _, err := s.Run(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		s.Close()
		if _, err := s.Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "the executor ends") {
			t.Errorf("used %t: %v", used, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	var s Starter
	defer s.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("\x7fELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := s.Run(context.Background(), Spec{Args: []string{"./x"}, Dir: dir, Output: func(uint8, []byte) {}})
	if err == nil || !strings.Contains(err.Error(), "neither a program for this machine") {
		t.Errorf("error is %v", err)
	}
}

// What left the program's session ends with the program, and does not hold up its
// end; a child of the process itself stays.
func TestDaemonsEnd(t *testing.T) {
	own := exec.Command("sleep", "1000")
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	_, out, err := run(t, t.Context(), `mkfifo up; setsid sh -c 'setsid sh -c "echo \$\$; echo up > up; exec sleep 1000" & sleep 1000' & read x < up`, nil)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := strconv.Atoi(strings.TrimSpace(out[1]))
	if err != nil {
		t.Fatalf("the daemon did not say its number: %v", err)
	}
	if err := syscall.Kill(daemon, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the daemon %d lives: %v", daemon, err)
	}
	if err := own.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a child of ours is gone: %v", err)
	}
	_ = own.Wait() // it says that it was ended
}

// TestReadOnly: a program changes no file that it must not, whatever it tries, and others are as they were for it.
// Users who are not root are held by the file's mode.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	input, other := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, how := range []string{"echo x > $IN", "echo x >> $IN", "truncate -s 0 $IN", "echo new > $OUT; mv -f $OUT $IN", "rm -f $IN", "sed -i s/o/a/ $IN", "chmod 600 $IN && echo x > $IN", "dd if=/dev/zero of=$IN bs=1 count=1 conv=notrunc"} {
		if os.Geteuid() != 0 && (strings.Contains(how, "chmod") || strings.Contains(how, "mv") || strings.Contains(how, "rm") || strings.Contains(how, "sed")) {
			continue // the owner may, and nothing hinders him: the executor notices
		}
		if err := errors.Join(os.RemoveAll(input), os.WriteFile(input, []byte("old"), 0o444)); err != nil {
			t.Fatal(err)
		}
		var s Starter
		run := func(script string) int {
			t.Helper()
			r, err := s.Run(t.Context(), Spec{Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "IN=" + input, "OUT=" + other},
				ReadOnly: []string{input}, Output: func(uint8, []byte) {}, Grace: func() time.Duration { return 0 }})
			if err != nil {
				t.Fatal(err)
			}
			return r.ExitCode
		}
		if code := run("cat $IN > $OUT && test $(cat $OUT) = old && pwd > $OUT"); code != 0 {
			t.Errorf("a program that reads ended with %d", code)
		}
		if here, err := os.Getwd(); err != nil || read(t, other) != here+"\n" {
			t.Errorf("it ran in %q, we in %s, %v", read(t, other), here, err)
		}
		if code := run("(" + how + ") 2> /dev/null"); code == 0 {
			t.Errorf("%s: ended well", how)
		}
		if got := read(t, input); got != "old" {
			t.Errorf("%s: the file is %q", how, got)
		}
		if _, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(read(t, "/proc/self/mountinfo"), dir+"/in") {
			t.Errorf("%s: a mount stays behind", how)
		}
		s.Close()
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func BenchmarkRun(b *testing.B) {
	input := filepath.Join(b.TempDir(), "in")
	if err := os.WriteFile(input, nil, 0o444); err != nil {
		b.Fatal(err)
	}
	for _, files := range [][]string{nil, {input}} {
		b.Run(fmt.Sprintf("%d read-only", len(files)), func(b *testing.B) {
			var s Starter
			defer s.Close()
			for b.Loop() {
				if _, err := s.Run(b.Context(), Spec{Args: []string{"/bin/true"}, ReadOnly: files, Output: func(uint8, []byte) {}, Grace: func() time.Duration { return 0 }}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
