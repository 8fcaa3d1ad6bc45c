package postmortem

import "testing"

func TestFindFault(t *testing.T) {
	const own = `  File "/cache/python-executor/1/cascade/executor/worker.py", line 390 in call
  File "/cache/python-executor/1/cascade/executor/outputs.py", line 84 in perform
  File "<frozen runpy>", line 198 in _run_module_as_main
`
	for name, tt := range map[string]struct{ crash, want string }{
		"nothing": {"", ""},
		"go":      {"panic: boom\n\ngoroutine 1 [running]:\n", ""},
		"segfault": {"Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n" +
			"  File \"/lib/ctypes/__init__.py\", line 519 in string_at\n  File \"m.py\", line 5 in crash\n" + own + "\nExtension modules: numpy (total: 1)\n",
			"Fatal Python error: Segmentation fault\nCurrent thread 0x1 (most recent call first):\n  File \"/lib/ctypes/__init__.py\", line 519 in string_at\n  File \"m.py\", line 5 in crash\n"},
		"threads of C": {"Fatal Python error: Aborted\n\nCurrent thread 0x1 [python] (most recent call first):\n  File \"m.py\", line 5 in crash\n" + own +
			"\nCurrent thread's C stack trace (most recent call first):\n  Binary file \"python\", at +0x1\n",
			"Fatal Python error: Aborted\nCurrent thread 0x1 [python] (most recent call first):\n  File \"m.py\", line 5 in crash\n"},
	} {
		if got := string(FindFault([]byte(tt.crash))); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
