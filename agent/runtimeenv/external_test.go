package runtimeenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/dag"
)

// TestMain runs the tests, or plays an external plugin: when the test binary is
// started by a name in a folder of plugins.
func TestMain(m *testing.M) {
	if filepath.Base(filepath.Dir(os.Args[0])) == "plugins" {
		play(filepath.Base(os.Args[0]))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// play answers one request: well as "good" does, apart from what the name says.
func play(name string) {
	var req pluginRequest
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = msgpack.Unmarshal(text[4:], &req)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	say := func(v any) {
		b, err := frame(v)
		if err == nil {
			_, err = os.Stdout.Write(b)
		}
		if err != nil {
			os.Exit(9)
		}
	}
	good := map[string]map[string]any{
		"describe": {"done": true, "protocol": pluginProtocol, "priority": 50},
		"validate": {"done": true},
		"key":      {"done": true, "key": fmt.Sprint(req.Settings)},
		"create":   {"done": true, "packages": []string{"tool 1.0"}},
		"activate": {"done": true, "env": map[string]string{"HOME_OF_TOOL": req.Dir}, "path": []string{filepath.Join(req.Dir, "bin")}},
		"delete":   {"done": true},
	}[req.Do]
	if tricks[name] != nil && tricks[name](req, good, say) {
		return
	}
	if req.Do == "create" {
		say(map[string]any{"tell": "makes " + req.Place})
		if err := os.WriteFile(filepath.Join(req.Dir, "tool"), []byte("x"), 0o700); err != nil {
			os.Exit(9)
		}
	}
	say(good)
}

// tricks are what bad plugins do; true: there is nothing more to say.
var tricks = map[string]func(req pluginRequest, good map[string]any, say func(any)) bool{
	"hangs": func(req pluginRequest, _ map[string]any, say func(any)) bool {
		for req.Do == "create" {
			say(map[string]any{"tell": "begins"})
			time.Sleep(time.Hour)
		}
		return false
	},
	"hangs-behind": func(req pluginRequest, good map[string]any, say func(any)) bool {
		for req.Do == "create" {
			say(good)
			time.Sleep(time.Hour)
		}
		return false
	},
	"dies": func(req pluginRequest, _ map[string]any, _ func(any)) bool {
		if req.Do == "create" {
			fmt.Fprintln(os.Stderr, "out of luck")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return false
	},
	"silent": func(req pluginRequest, _ map[string]any, _ func(any)) bool { return req.Do == "create" },
	"prints": func(req pluginRequest, _ map[string]any, _ func(any)) bool {
		fmt.Println("hello, I am a plugin")
		return false
	},
	"floods": func(req pluginRequest, _ map[string]any, say func(any)) bool {
		for req.Do == "create" {
			say(map[string]any{"tell": "still there"})
		}
		return false
	},
	"loud": func(req pluginRequest, _ map[string]any, _ func(any)) bool {
		if req.Do == "create" {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 100_000)+"and the end")
			os.Exit(3)
		}
		return false
	},
	"large": func(req pluginRequest, good map[string]any, say func(any)) bool {
		if req.Do == "create" {
			_, _ = os.Stdout.Write([]byte{0x7f, 0xff, 0xff, 0xff})
			time.Sleep(time.Hour)
		}
		return false
	},
	"talks-on":  func(req pluginRequest, good map[string]any, say func(any)) bool { say(good); return false },
	"misspells": func(req pluginRequest, good map[string]any, _ func(any)) bool { good["paths"] = "x"; return false },
	"newer":     func(req pluginRequest, good map[string]any, _ func(any)) bool { good["protocol"] = 7; return false },
	"important": func(req pluginRequest, good map[string]any, _ func(any)) bool { good["priority"] = -1; return false },
	"keyless":   func(req pluginRequest, good map[string]any, _ func(any)) bool { delete(good, "key"); return false },
	"climbs": func(req pluginRequest, good map[string]any, _ func(any)) bool {
		good["path"] = []string{"../bin"}
		return false
	},
	"sets-ours": func(req pluginRequest, good map[string]any, _ func(any)) bool {
		good["env"] = map[string]string{"CASCADE_X": ""}
		return false
	},
	"refuses": func(req pluginRequest, good map[string]any, _ func(any)) bool {
		good["error"] = "no such tool"
		return false
	},
	"exits-late": func(req pluginRequest, good map[string]any, say func(any)) bool { say(good); os.Exit(4); return true },
	"late": func(req pluginRequest, good map[string]any, _ func(any)) bool {
		good["priority"] = 5
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "mark.txt")); err != nil {
			good["error"] = "not ready"
		}
		return false
	},
	"tries": func(req pluginRequest, good map[string]any, _ func(any)) bool {
		mark := filepath.Join(filepath.Dir(os.Args[0]), "mark.txt")
		if _, err := os.Stat(mark); err != nil && req.Do == "create" {
			_ = os.WriteFile(mark, nil, 0o600)
			good["error"], good["transient"] = "the server is busy", true
		}
		return false
	},
}

// plugged is a cache with the plugins of these names.
func plugged(t *testing.T, names ...string) *Cache {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := Open(t.TempDir(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	return cache
}

func asks(name string, settings any) dag.Environment {
	return dag.Environment{Name: "e", Source: "/job", Plugins: []dag.Field{{Name: name, Value: settings}}}
}

func TestExternal(t *testing.T) {
	cache := plugged(t, "good", "other", ".hidden")
	var told []string
	settings := map[string]any{"token": "hunter2", "list": []any{int64(1), "two", 3.5, true, nil}}
	act, err := cache.Prepare(t.Context(), asks("good", settings), func(text string) { told = append(told, text) })
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache.dir, "plugin-good", strings.TrimPrefix(act.Keys[0], "plugin-good-"))
	want := []string{"HOME_OF_TOOL=" + dir, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
	if !act.Built || !slices.Equal(act.Env, want) || !slices.Equal(told, []string{"", "makes " + dir}) {
		t.Errorf("it is %+v, told %q", act, told)
	}
	if _, err := os.Stat(filepath.Join(dir, "tool")); err != nil {
		t.Error(err)
	}
	if again, err := cache.Prepare(t.Context(), asks("good", settings), nil); err != nil || again.Built || !slices.Equal(again.Keys, act.Keys) {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if other, err := cache.Prepare(t.Context(), asks("good", "else"), nil); err != nil || other.Keys[0] == act.Keys[0] {
		t.Errorf("with other settings: %+v, %v", other, err)
	}
	records, err := cache.List()
	i := slices.IndexFunc(records, func(r Record) bool { return r.ID() == act.Keys[0] })
	if err != nil || i < 0 || records[i].What != "list token" || !slices.Equal(records[i].Packages, []string{"tool 1.0"}) ||
		!strings.Contains(records[i].Replay(), "plugin good") {
		t.Errorf("records are %+v, %v", records, err)
	}
	if _, err := cache.Prepare(t.Context(), asks("absent", nil), nil); err == nil || !strings.Contains(err.Error(), "plugin absent is not on this host") {
		t.Errorf("a plugin that is not there: %v", err)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cache.Delete(act.Keys[0]); err != nil {
		t.Error(err)
	}
}

// Whatever a plugin does wrong, it is named with what it did, and nothing is left in the cache.
func TestExternalMisbehaves(t *testing.T) {
	for name, want := range map[string]string{
		"hangs":        "plugin hangs: create: it took longer than 1s",
		"hangs-behind": "plugin hangs-behind: create: it took longer than 1s",
		"dies":         "plugin dies: create: it ended without an answer: signal: killed\nout of luck",
		"silent":       "plugin silent: create: it ended without an answer",
		"prints":       "does it print to standard output?",
		"floods":       "it says more than 1000 times",
		"loud":         "noise and the end",
		"large":        "an answer of 2147483647 bytes",
		"talks-on":     "it writes on behind its answer",
		"misspells":    `unknown field "paths"`,
		"newer":        "speaks protocol 7, this program 1",
		"important":    "has the priority -1, want 1 to 999",
		"keyless":      "plugin keyless gave no key",
		"climbs":       `puts "../bin" into PATH`,
		"sets-ours":    "names that start with CASCADE_ are Cascade's own",
		"refuses":      "plugin refuses: describe: no such tool",
		"exits-late":   "it answered, and then: exit status 4",
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(name, "hangs") {
				t.Skip("waits for a second")
			}
			cache := plugged(t, name)
			for _, p := range cache.plugins {
				if e, ok := p.(*externalPlugin); ok && strings.HasPrefix(name, "hangs") {
					e.limits.create = time.Second
				}
			}
			_, err := cache.Prepare(t.Context(), asks(name, nil), nil)
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 70_000 {
				t.Errorf("error %v, want %s", err, want)
			}
			if left, _ := filepath.Glob(filepath.Join(cache.dir, "plugin-"+name, ".build-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What a plugin calls transient is tried again.
func TestExternalTransient(t *testing.T) {
	cache := plugged(t, "tries")
	var told []string
	act, err := cache.Prepare(t.Context(), asks("tries", nil), func(text string) { told = append(told, text) })
	if err != nil || !act.Built || len(told) != 4 || !strings.Contains(told[2], "the server is busy") {
		t.Errorf("%+v, %v, told %q", act, err, told)
	}
}

// A plugin that could not say what it is may do so later; from then on it has its priority.
func TestExternalDescribedLate(t *testing.T) {
	cache := plugged(t, "good", "late")
	env := dag.Environment{Name: "e", Source: "/job", Plugins: []dag.Field{{Name: "good"}, {Name: "late"}}}
	if _, err := cache.Prepare(t.Context(), env, nil); err == nil || !strings.Contains(err.Error(), "plugin late: describe: not ready") {
		t.Errorf("error %v", err)
	}
	i := slices.IndexFunc(cache.plugins, func(p Plugin) bool { return p.Name() == "plugin-late" })
	late := cache.plugins[i].(*externalPlugin)
	if err := os.WriteFile(filepath.Join(filepath.Dir(late.path), "mark.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := late.Priority(); n != defaultPriority {
		t.Errorf("priority %d is asked anew after a failure", n)
	}
	act, err := cache.Prepare(t.Context(), env, nil)
	if err != nil || len(act.Keys) != 2 || !strings.HasPrefix(act.Keys[0], "plugin-late-") {
		t.Errorf("it is %+v, %v", act, err)
	}
}

// Who asks may give up: then the plugin is ended.
func TestExternalIsEnded(t *testing.T) {
	cache := plugged(t, "hangs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := cache.Prepare(ctx, asks("hangs", nil), func(text string) {
		if text != "" { // it is at work
			cancel()
		}
	})
	var failed *PluginError
	if !errors.As(err, &failed) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzPluginAnswer(f *testing.F) {
	for _, v := range []any{pluginAnswer{Done: true, Env: map[string]string{"A": "b"}, Path: []string{"/bin"}}, map[string]any{"tell": "x"}, map[string]any{"deep": []any{[]any{}}}, 7} {
		b, err := frame(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readAnswer(bytes.NewReader(b), nil)
		if err == nil && !a.Done && a.Error == "" {
			t.Errorf("%+v is no answer", a)
		}
	})
}
