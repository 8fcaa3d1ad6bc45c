package dag

import (
	"os"
	"strings"
	"testing"
)

// TestReference: the job files of the reference are valid, and every key is
// described there. That of inputs, which looks for files, is run elsewhere.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, rest, found := strings.Cut(text, "```yaml\njob:")
	if !found {
		t.Fatal("the reference has no example")
	}
	for found {
		var example string
		example, rest, _ = strings.Cut(rest, "```")
		if !strings.Contains(example, "\ninputs:") {
			checkRoundTrip(t, parse(t, "job:"+example))
		}
		_, rest, found = strings.Cut(rest, "```yaml\njob:")
	}
	for _, keys := range [][]string{jobKeys, inputKeys, taskKeys, environmentKeys} {
		for _, k := range keys {
			if !strings.Contains(text, "`"+k+"`") {
				t.Errorf("key %s is not described", k)
			}
		}
	}
}
