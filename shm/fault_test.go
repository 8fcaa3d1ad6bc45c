package shm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/shm/ledger"
)

// TestMain re-executes this binary as an executor that misbehaves.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CASCADE_SHM_TEST_INDEX"); dir != "" {
		fmt.Fprintln(os.Stderr, noteForEver(dir))
		os.Exit(3)
	}
	if how := os.Getenv("CASCADE_SHM_TEST_EXECUTOR"); how != "" {
		if err := misbehave(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func misbehave(how string) error {
	c, err := OpenControl(os.Getenv("CASCADE_SHM_TEST_CONTROL"))
	if err != nil {
		return err
	}
	m := NewMapper(os.Getenv("CASCADE_SHM_TEST_DIR"), 0)
	m.Record(c)
	c.Begin(Step{Run: 41, Phase: 0, Attempt: 1})
	v, err := m.View("a1", 4096, 1<<16)
	if err != nil {
		return err
	}
	l, err := m.Lease("a1", 1<<20, 8192)
	if err != nil {
		return err
	}
	mine, _, err := l.Alloc(8192, 8)
	if err != nil {
		return err
	}
	c.Begin(Step{Run: 42, Phase: 7, Attempt: 2})
	ended := make(chan struct{})
	switch how {
	case "own goroutine":
		addr, fault := catchFault(func() { v.Bytes[77] = 1 })
		w, ok := m.Owner(addr)
		fmt.Println(fault, w, ok)
	case "copy":
		addr, fault := catchFault(func() { copy(v.Bytes[5000:], make([]byte, 6000)) })
		w, ok := m.Owner(addr)
		fmt.Println(fault, w.Name, w.Offset >= 4096+5000 && w.Offset < 4096+11000, ok)
	case "other goroutine":
		catchFault(func() {
			go func() { v.Bytes[77] = 1; close(ended) }()
			<-ended
		})
	case "sealed lease":
		if err := l.Seal(false); err != nil {
			return err
		}
		go func() { mine[4097] = 1; close(ended) }()
		<-ended
	case "nil":
		var p *int
		go func() { *p = 1; close(ended) }()
		<-ended
	case "released": // only check builds notice
		b := v.Bytes
		v.Release()
		_, fault := catchFault(func() { _ = bytes.Count(b, []byte{0}) })
		fmt.Println(fault)
	case "closed lease":
		if err := l.Close(); err != nil {
			return err
		}
		addr, fault := catchFault(func() { mine[100] = 1 })
		w, ok := m.Owner(addr)
		fmt.Println(fault, w, ok)
		found, ok := c.Find(addr)
		fmt.Println(found, ok)
	}
	return nil
}

func TestFaults(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	must(t, s.Create(1, ledger.Arena, 2<<20))
	for i, c := range []struct {
		how, stdout string
		where       Where // from the crash output and the control page
		crash       bool
	}{
		{how: "own goroutine", stdout: "true {a1 4173 false} true\n"},
		{how: "copy", stdout: "true a1 true true\n"},
		{how: "other goroutine", where: Where{"a1", 4173, false}, crash: true},
		{how: "sealed lease", where: Where{"a1", 1<<20 + 4097, true}, crash: true},
		{how: "nil", crash: true},
		{how: "released", stdout: fmt.Sprintln(checked)},
		{how: "closed lease", stdout: "true {a1 1048676 true} true\n{a1 1048676 true} true\n"},
	} {
		t.Run(c.how, func(t *testing.T) {
			path := s.ControlPath(uint64(i))
			page, err := s.CreateControl(path)
			must(t, err)
			defer page.Close()
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), "CASCADE_SHM_TEST_EXECUTOR="+c.how, "CASCADE_SHM_TEST_DIR="+s.Dir(), "CASCADE_SHM_TEST_CONTROL="+path)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err = cmd.Run()
			if stdout.String() != c.stdout || (err != nil) != c.crash {
				t.Fatalf("ended with %v and printed %q, %s", err, stdout.String(), stderr.String())
			}
			if step, n := page.Last(); step != (Step{42, 7, 2}) || n != 2 {
				t.Errorf("last step %+v of %d", step, n)
			}
			if !c.crash {
				return
			}
			crash, ok := ParseCrash(stderr.Bytes())
			if !ok || crash.Signal != "SIGSEGV" {
				t.Fatalf("parsed %+v, %v from %s", crash, ok, stderr.String())
			}
			if w, ok := page.Find(crash.Addr); w != c.where || ok != (w.Name != "") {
				t.Errorf("address %x is %+v, %v; want %+v", crash.Addr, w, ok, c.where)
			}
		})
	}
}

func TestCatchFaultLetsOtherPanicsPass(t *testing.T) {
	if _, fault := catchFault(func() {}); fault {
		t.Error("a fault where there was none")
	}
	cause := errors.New("task's own")
	for name, f := range map[string]func(){
		"task's own":             func() { panic(cause) },
		"nil pointer":            func() { var p *int; *p = 1 },
		"index out of range [3]": func() { var b []int; n := 3; b[n] = 1 },
	} {
		func() {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), name) {
					t.Errorf("%s: recovered %v", name, r)
				}
			}()
			catchFault(f)
			t.Errorf("%s: did not pass", name)
		}()
	}
}

func TestParseCrash(t *testing.T) {
	for _, c := range []struct {
		out  string
		want Crash
		ok   bool
	}{
		{"unexpected fault address 0x7f3c2a401000\nfatal error: fault\n[signal SIGSEGV: segmentation violation code=0x2 addr=0x7f3c2a401000 pc=0x46e2a1]\n\ngoroutine 7 ...", Crash{"SIGSEGV", 0x7f3c2a401000}, true},
		{"log line\nfatal error: unexpected signal during runtime execution\n[signal SIGBUS: bus error code=0x2 addr=0xffff0000 pc=0x1]", Crash{"SIGBUS", 0xffff0000}, true},
		{"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47]", Crash{"SIGSEGV", 0}, true},
		{"panic: x", Crash{}, false},
		{"the text [signal SIGSEGV: addr=0x1 within a line", Crash{}, false},
		{"[signal SIGSEGV: addr=0xffffffffffffffffff pc=0x1]", Crash{}, false},
		{"", Crash{}, false},
	} {
		if got, ok := ParseCrash([]byte(c.out)); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v", c.out, got, ok)
		}
	}
}

func FuzzParseCrash(f *testing.F) {
	f.Add([]byte("[signal SIGSEGV: segmentation violation code=0x2 addr=0x7f3c2a401000 pc=0x46e2a1]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := ParseCrash(b); ok && c.Signal == "" {
			t.Fatalf("%+v", c)
		}
	})
}

func TestControlPage(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	path := s.ControlPath(1)
	agent, err := s.CreateControl(path)
	must(t, err)
	executor, err := OpenControl(path)
	must(t, err)
	if _, n := agent.Last(); n != 0 {
		t.Errorf("%d steps of a new page", n)
	}
	for i := range uint64(5) {
		want := Step{i << 40, uint32(i), uint32(i) + 1}
		executor.Begin(want)
		if got, n := agent.Last(); got != want || n != i+1 {
			t.Errorf("step %d: %+v, want %+v", n, got, want)
		}
	}
	// The documented layout, as another language would read it.
	raw, err := os.ReadFile(path)
	must(t, err)
	if string(raw[:8]) != "cascade1" || raw[8] != 5 || raw[32+5] != 4 || raw[32+8] != 4 || raw[32+12] != 5 {
		t.Errorf("layout: % x", raw[:64])
	}
	// A death in the middle of a step leaves the former one.
	executor.word(16).Store(99)
	if got, _ := agent.Last(); got.Run != 4<<40 {
		t.Errorf("half a step is visible: %+v", got)
	}
	mem := make([]byte, 100)
	addr := uintptr(unsafe.Pointer(&mem[0]))
	var entries []int
	for range controlEntries {
		entries = append(entries, executor.note("a1", unsafe.Pointer(&mem[0]), 100, 8192, true))
	}
	if i := executor.note("a2", unsafe.Pointer(&mem[0]), 100, 0, false); i != -1 {
		t.Errorf("entry %d of a full table", i)
	}
	for _, e := range entries[1:] {
		executor.unnote(e)
	}
	if w, ok := agent.Find(addr + 99); !ok || w != (Where{"a1", 8192 + 99, true}) {
		t.Errorf("found %+v, %v", w, ok)
	}
	executor.unnote(entries[0])
	if w, ok := agent.Find(addr); ok {
		t.Errorf("found %+v after it went", w)
	}
	must(t, executor.Close())
	must(t, agent.Close())
	must(t, os.WriteFile(path, make([]byte, controlBytes), 0o600))
	if _, err := OpenControl(path); err == nil {
		t.Error("a page without its mark was opened")
	}
	must(t, os.Truncate(path, 100))
	if _, err := OpenControl(path); !errors.Is(err, ErrBounds) {
		t.Errorf("a short page: %v", err)
	}
}

// catchFault runs f and reports whether it was ended by access to memory that it
// may not touch, as executors do for tasks. Other panics pass through.
func catchFault(f func()) (addr uintptr, fault bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // the runtime gives the address of a fault, but not of a nil dereference
			addr, fault = r.Addr(), true
		default:
			panic(r)
		}
	}()
	f()
	return 0, false
}
