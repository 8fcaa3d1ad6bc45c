package cascade_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// forbidden are words that the glossary (docs/glossary.md) replaces by a term of the field.
var forbidden = []struct {
	words   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(made|makes?|making) (it |them |that )?again\b`), "recompute"},
	{regexp.MustCompile(`(?i)\b(given?|gives?|giving) (it |them |that )?back\b`), "return or release"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix or repair"},
	{regexp.MustCompile(`(?i)\b(no|some)body\b`), "name the process, role or person"},
	{regexp.MustCompile(`(?i)\bbeg(u|a|i)n(s|ning)? (anew|again)\b`), "restart"},
	{regexp.MustCompile(`(?i)\bcame to nothing\b`), "was lost"},
	{regexp.MustCompile(`(?i)\bin vain\b`), "without effect, stale or wasted"},
	{regexp.MustCompile(`(?i)\bgone for good\b`), "failed permanently or lost"},
}

// subject finds a sentence whose subject is a relative clause: "Who asks is told."
// A question and a heading that ends without a full stop are none.
var subject = regexp.MustCompile(`(?:^|[.:;] )(Who|What) (\w+) [^?.]*\.`)

// TestWords holds the texts that people read to the words of the glossary: documents
// outside code and quotations, and the strings and comments of programs.
func TestWords(t *testing.T) {
	tracked, err := exec.Command("git", "ls-files", "*.go", "*.md", "*.py").Output()
	if err != nil {
		t.Skipf("the list of files: %v", err) // a copy of the sources without its repository
	}
	for _, name := range strings.Fields(string(tracked)) {
		var texts []passage
		switch {
		case name == "docs/glossary.md" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/"):
		case strings.HasSuffix(name, ".go"):
			texts = textsOfGo(t, name)
		case strings.HasSuffix(name, ".md"):
			texts = textsOfMarkdown(t, name)
		case strings.HasSuffix(name, ".py"):
			texts = linesOf(t, name)
		}
		for _, p := range texts {
			for _, f := range forbidden {
				if found := f.words.FindString(p.text); found != "" {
					t.Errorf("%s:%d: %q: say %s", name, p.line, found, f.instead)
				}
			}
			if m := subject.FindStringSubmatch(p.text); m != nil {
				t.Errorf("%s:%d: a sentence begins with %q as its subject: name the process, role or thing", name, p.line, m[1]+" "+m[2])
			}
		}
	}
}

// passage is a piece of text and the line on which it begins.
type passage struct {
	text string
	line int
}

func textsOfGo(t *testing.T, name string) (texts []passage) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		texts = append(texts, passage{strings.ReplaceAll(group.Text(), "\n", " "), set.Position(group.Pos()).Line})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, passage{text, set.Position(literal.Pos()).Line})
			}
		}
		return true
	})
	return texts
}

// quoted is what a document shows rather than says.
var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|\\*[^*\\n]+\\*|\\]\\([^)]*\\)")

func textsOfMarkdown(t *testing.T, name string) (texts []passage) {
	t.Helper()
	code := false
	for _, p := range linesOf(t, name) {
		if strings.HasPrefix(strings.TrimSpace(p.text), "```") {
			code = !code
		} else if !code {
			texts = append(texts, passage{quoted.ReplaceAllString(p.text, "_"), p.line})
		}
	}
	return texts
}

func linesOf(t *testing.T, name string) (lines []passage) {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, passage{s.Text(), len(lines) + 1})
	}
	return lines
}

// The check finds what it forbids, and nothing else.
func TestWordsFinds(t *testing.T) {
	for text, want := range map[string]bool{
		"What was lost is recomputed.":      true,
		"The queue grows. Who waits hears.": true,
		"What is a task?":                   false,
		"What a task reads":                 false,
		"It says what it needs.":            false,
	} {
		if got := subject.MatchString(text); got != want {
			t.Errorf("%q: found %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"it is made again": true, "nobody reads it": true, "the mend": true, "amendment": false, "is given back": true, "gives them back": true, "in vain": true, "made against": false,
	} {
		got := false
		for _, f := range forbidden {
			got = got || f.words.MatchString(text)
		}
		if got != want {
			t.Errorf("%q: found %v, want %v", text, got, want)
		}
	}
}
