package helptest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	inlineCode = regexp.MustCompile("(?s)`([^`]+)`")
	comment    = regexp.MustCompile(`(^|\s)#.*`)
	separators = regexp.MustCompile(`\|\||&&|[|;()]|\$\(`)
	word       = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	redirected = regexp.MustCompile(`^\d?[<>]`)
)

// Documents checks that what README.md and the documents tell people to type of a program is
// what it takes: each command and flag exists, and a line of a shell block has as many
// arguments as the command wants.
func Documents(t *testing.T, root string, program *cobra.Command) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				found += typed(t, page, comment.ReplaceAllString(line, ""), program, true)
			}
		}
		for _, m := range inlineCode.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			found += typed(t, page, strings.ReplaceAll(m[1], "\n", " "), program, false)
		}
	}
	if found == 0 {
		t.Error("no document has a command of it")
	}
}

var fences = regexp.MustCompile("(?ms)^```.*?^```$")

// typed checks the commands of a line, and returns how many are the program's.
func typed(t *testing.T, page, line string, program *cobra.Command, whole bool) (n int) {
	t.Helper()
	for _, part := range separators.Split(line, -1) {
		words := word.FindAllString(part, -1)
		if at := slices.IndexFunc(words, redirected.MatchString); at >= 0 {
			words = words[:at]
		}
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "exec") {
			words = words[1:]
			if len(words) > 1 && words[0] == "-u" {
				words = words[2:]
			}
		}
		if len(words) == 0 || words[0] != program.Name() {
			continue
		}
		for i, w := range words {
			words[i] = strings.Trim(w, `'"`)
			if strings.HasPrefix(w, "[") || !strings.Contains(w, "[") { // "[--uses N]" may be left out
				words[i] = strings.Trim(words[i], "[]")
			}
		}
		n++
		if err := accepted(program, words[1:], whole); err != nil {
			t.Errorf("%s: %s: %v", filepath.Base(page), strings.TrimSpace(part), err)
		}
	}
	return n
}

func accepted(root *cobra.Command, words []string, whole bool) error {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "..." || w == "…" })
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	err = c.ParseFlags(rest)
	args := c.Flags().Args()
	if !whole && (errors.As(err, new(*pflag.ValueRequiredError)) || errors.As(err, new(*pflag.InvalidValueError))) {
		return nil // the text speaks of the flag, or of "--warm N"
	}
	if err != nil || !whole && len(args) == 0 {
		return err
	}
	return c.ValidateArgs(args)
}
