package postmortem

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

func TestInput(t *testing.T) {
	place := func(kind comms.PlaceKind, segment uint32, offset uint64) []comms.Desc {
		return []comms.Desc{{Size: 10, Place: comms.Place{Kind: kind, Segment: segment, Offset: offset}}}
	}
	kind := &comms.Kind{Inputs: []comms.KindIn{{Name: "a"}, {Name: "b"}}}
	run := &comms.Run{Inputs: []comms.RunInput{
		{Data: place(comms.PlaceSegment, 1, 100)},
		{Data: append(place(comms.PlaceInline, 2, 0), place(comms.PlaceSegment, 1, 110)...)},
		{Data: place(comms.PlaceSegment, 3, 0)}, // of a run that does not fit its kind
	}}
	for _, tt := range []struct {
		segment uint32
		offset  uint64
		want    string
	}{
		{1, 99, ""}, {1, 100, "a"}, {1, 109, "a"}, {1, 110, "b"}, {1, 119, "b"}, {1, 120, ""}, {2, 5, ""}, {3, 5, ""},
	} {
		name, ok := Input(kind, run, tt.segment, tt.offset)
		if name != tt.want || ok != (tt.want != "") {
			t.Errorf("%d+%d: %q, %t; want %q", tt.segment, tt.offset, name, ok, tt.want)
		}
	}
}

func TestLive(t *testing.T) {
	kind := &comms.Kind{Inputs: []comms.KindIn{{Name: "a"}, {Name: "b", List: true}, {Name: "c"}}}
	live := comms.Desc{Place: comms.Place{Kind: comms.PlaceLive, Run: 1}}
	run := &comms.Run{Inputs: []comms.RunInput{{Data: []comms.Desc{{}}}, {Data: []comms.Desc{{}, live}}, {Data: []comms.Desc{live}}, {Data: []comms.Desc{live}}}}
	if got := Live(kind, run); got != "b or c" {
		t.Errorf("got %q", got)
	}
	if got := Live(kind, &comms.Run{}); got != "" {
		t.Errorf("without inputs: %q", got)
	}
}

// deaths are ways in which a Go program ends; TestMain dies of the one that is asked for.
var deaths = map[string]func(){
	"panic":      func() { panic("boom\n\nand more") },
	"error":      func() { panic(os.ErrNotExist) },
	"nil":        func() { var p *int; *p = 1 },
	"overflow":   func() { os.Exit(recurse(1)) },
	"map":        func() { raceOnMap() },
	"unlocked":   func() { var m sync.Mutex; m.Unlock() },
	"wild write": func() { writeAt(1 << 40) },
	"exit":       func() { os.Exit(2) },
}

func TestFindPanic(t *testing.T) {
	for name, want := range map[string]string{
		"panic": "panic: boom\n\t\n\tand more", "error": "panic: file does not exist",
		"nil":      "panic: runtime error: invalid memory address or nil pointer dereference",
		"overflow": "fatal error: stack overflow", "map": "fatal error: concurrent map access",
		"unlocked":   "fatal error: a lock was unlocked that was not locked",
		"wild write": "", "exit": "",
	} {
		t.Run(name, func(t *testing.T) {
			crash := filepath.Join(t.TempDir(), "crash")
			cmd := exec.CommandContext(context.Background(), os.Args[0])
			cmd.Env = append(os.Environ(), "GOMAXPROCS=8", "POSTMORTEM_DEATH="+name, "POSTMORTEM_CRASH="+crash) // on one core goroutines do not meet in a map
			if err := cmd.Run(); err == nil {
				t.Fatal("it lives")
			}
			text, err := os.ReadFile(crash)
			if err != nil {
				t.Fatal(err)
			}
			p, ok := FindPanic(text)
			if ok != (want != "") || !strings.HasPrefix(p.Message, want) {
				t.Fatalf("%+v, %t in:\n%.2000s", p, ok, text)
			}
			if ok && (!strings.HasPrefix(p.Stack, "goroutine ") || !strings.Contains(p.Stack, "_test.go:")) {
				t.Errorf("stack is %q", p.Stack)
			}
		})
	}
}

func TestMain(m *testing.M) {
	die := deaths[os.Getenv("POSTMORTEM_DEATH")]
	if die == nil {
		os.Exit(m.Run())
	}
	f, err := os.Create(os.Getenv("POSTMORTEM_CRASH"))
	if err == nil {
		err = debug.SetCrashOutput(f, debug.CrashOptions{})
	}
	if err != nil {
		panic(err)
	}
	debug.SetMaxStack(1 << 20)
	go die()
	select {}
}
