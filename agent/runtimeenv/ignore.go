package runtimeenv

import (
	"bufio"
	"bytes"
	"path"
	"strings"
)

// ignoreNames are files at the top of a folder that say what stays behind; the
// first that is there counts.
var ignoreNames = []string{".cascadeignore", ".gitignore"}

// ignoreList tells which files of a folder stay behind, by the rules of git
// (https://git-scm.com/docs/gitignore) for the file at the top; the last pattern that fits decides.
type ignoreList []ignorePattern

type ignorePattern struct {
	parts    []string // of the path; "**" stands for any number of them
	keep     bool     // it began with !
	dirsOnly bool     // it ended with /
}

// parseIgnore reads patterns. Folders that no task needs stay behind in any case.
func parseIgnore(text []byte) (out ignoreList) {
	for _, name := range []string{".git", "__pycache__", ".venv"} {
		out = append(out, ignorePattern{parts: []string{"**", name}})
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		var p ignorePattern
		if p.keep = line[0] == '!'; p.keep {
			line = line[1:]
		}
		line = strings.TrimPrefix(line, `\`)
		if p.dirsOnly = strings.HasSuffix(line, "/"); p.dirsOnly {
			line = strings.TrimRight(line, "/")
		}
		anchored := strings.Contains(line, "/")
		p.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
		if !anchored {
			p.parts = append([]string{"**"}, p.parts...)
		}
		out = append(out, p)
	}
	return out
}

// ignores tells whether a path, with / between its parts, stays behind. Paths in
// an ignored folder are not asked for.
func (l ignoreList) ignores(name string, dir bool) bool {
	parts := strings.Split(name, "/")
	for i := len(l) - 1; i >= 0; i-- {
		if p := &l[i]; (dir || !p.dirsOnly) && matchParts(p.parts, parts) {
			return !p.keep
		}
	}
	return false
}

// matchParts compares a pattern with a path, part by part. Patterns have few **.
func matchParts(pattern, parts []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(parts) > 0
			}
			for i := range parts {
				if matchParts(pattern[1:], parts[i:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], parts[0]); err != nil || !ok {
			return false
		}
		pattern, parts = pattern[1:], parts[1:]
	}
	return len(parts) == 0
}
