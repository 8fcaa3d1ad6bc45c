package daemon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/cmd/internal/daemon"
)

// Text of others does nothing to the console of an operator, in the log or in an error.
func TestOutputIsSafe(t *testing.T) {
	var out, errs strings.Builder
	c := &cobra.Command{Use: "tool", RunE: func(c *cobra.Command, _ []string) error {
		log := daemon.Log(c.ErrOrStderr(), 0, false)
		log.Info().Str("job", "a\u009bb\u202e").Msg("stored \u200b")
		c.Println("\x1b[2J")
		return errors.New("\x1b]0;PWN\x07")
	}}
	if code := daemon.Execute(c, nil, &out, &errs, nil); code != daemon.ExitInfrastructure {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{`"job":"a\u009bb\u202e"`, `stored \u200b`, `\u001b[2J`, `tool: \u001b]0;PWN\u0007`} {
		if !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("want %s in %q and %q", want, out.String(), errs.String())
		}
	}
}
