package runtimeenv

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// specifier is one condition of a version, as PEP 440 writes them, as far as
// versions of Python go: numbers with dots.
type specifier struct {
	op       string
	version  string
	wildcard bool // == 3.12.*
}

var specifierForm = regexp.MustCompile(`^(~=|===?|!=|<=?|>=?) *([0-9]+(?:\.[0-9]+)*)(\.\*)?$`)

// parseSpec reads a list of specifiers; a plain "3.12" stands for "==3.12.*".
func parseSpec(text string) (out []specifier, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if text[0] >= '0' && text[0] <= '9' {
		text = "==" + text + ".*"
		if strings.Count(text, ".") > 2 {
			text = strings.TrimSuffix(text, ".*")
		}
	}
	for part := range strings.SplitSeq(text, ",") {
		m := specifierForm.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil || m[3] != "" && m[1] != "==" && m[1] != "!=" || m[1] == "~=" && !strings.Contains(m[2], ".") {
			return nil, fmt.Errorf("python: version: %q is not a condition such as >=3.10", strings.TrimSpace(part))
		}
		out = append(out, specifier{m[1], m[2], m[3] != ""})
	}
	return out, nil
}

// admits tells whether a version meets all conditions.
func admits(want []specifier, version string) bool {
	return !slices.ContainsFunc(want, func(s specifier) bool { return !s.admits(version) })
}

func (s specifier) admits(version string) bool {
	c := compareVersions(version, s.version)
	same := c == 0
	if s.wildcard {
		same = hasPrefix(version, s.version)
	}
	switch s.op {
	case "==", "===":
		return same
	case "!=":
		return !same
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	default: // ~= 3.10.2 is >= 3.10.2, == 3.10.*
		return c >= 0 && hasPrefix(version, s.version[:strings.LastIndexByte(s.version, '.')])
	}
}

// hasPrefix tells whether a version begins with the numbers of another.
func hasPrefix(version, prefix string) bool {
	v, p := numbers(version), numbers(prefix)
	return len(v) >= len(p) && slices.Equal(v[:len(p)], p)
}

// compareVersions compares by number; missing numbers count as 0, and a
// pre-release (3.14.0a2) is before its release.
func compareVersions(a, b string) int {
	x, y := numbers(a), numbers(b)
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	if c := slices.Compare(x, y); c != 0 {
		return c
	}
	if suffix(a) == "" || suffix(b) == "" {
		return strings.Compare(suffix(b), suffix(a)) // the release is after them all
	}
	return strings.Compare(suffix(a), suffix(b))
}

func suffix(version string) string {
	return strings.TrimLeft(version, "0123456789.")
}

func numbers(version string) (out []int) {
	for part := range strings.SplitSeq(strings.TrimSuffix(version, suffix(version)), ".") {
		n, _ := strconv.Atoi(part) // digits alone get here
		out = append(out, n)
	}
	return out
}
