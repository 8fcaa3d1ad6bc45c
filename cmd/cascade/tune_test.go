package main

import "testing"

// TestShortReason takes from the text of an error the line that says what failed.
func TestShortReason(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    return 1 / 0\n           ~~^~~\n"
	for text, want := range map[string]string{
		"":                                     "",
		"training_iteration is 4, and max_t 4": "training_iteration is 4, and max_t 4",
		"/bin/sh: exit status 3\nno data":      "/bin/sh: exit status 3",
		trace + "ZeroDivisionError: division by zero\n":                              "ZeroDivisionError: division by zero",
		"setup: " + trace + "ValueError: no model":                                   "setup: ValueError: no model",
		"python: exit status 1\nloading\n" + trace + "KeyError: 'x'":                 "python: exit status 1: KeyError: 'x'",
		trace + "KeyError: 'x'\n\nDuring handling:\n\n" + trace + "OSError: no disk": "OSError: no disk",
		"cut: Traceback (most recent call last):":                                    "cut: Traceback (most recent call last):",
	} {
		if got := shortReason(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
