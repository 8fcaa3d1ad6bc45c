package dag

import (
	"os"
	"strings"
	"testing"
)

// TestReference: the complete example of the reference is a valid job, and
// every key is described there.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, rest, _ := strings.Cut(text, "```yaml\njob:")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the reference has no example")
	}
	g := parse(t, "job:"+example)
	checkRoundTrip(t, g)
	for _, keys := range [][]string{jobKeys, inputKeys, taskKeys, environmentKeys} {
		for _, k := range keys {
			if !strings.Contains(text, "`"+k+"`") {
				t.Errorf("key %s is not described", k)
			}
		}
	}
}
