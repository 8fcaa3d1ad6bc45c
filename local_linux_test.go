//go:build linux

package cascade

import (
	"context"
	"errors"
	"testing"
)

func TestLaunch(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		f    func(context.Context) error
		died bool // it tells, before it is ended
		err  error
	}{
		"runs until it is ended":           {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, nil},
		"runs until it is ended, and says": {func(ctx context.Context) error { <-ctx.Done(); return broken }, false, broken},
		"ends of its own accord":           {func(context.Context) error { return broken }, true, broken},
		"ends without a word":              {func(context.Context) error { return nil }, true, nil},
	} {
		died := make(chan error, 1)
		end := launch(c.f, died)
		if c.died {
			if err := <-died; c.err != nil && !errors.Is(err, c.err) || err == nil {
				t.Errorf("%s: told %v", name, err)
			}
		}
		if err := end(); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if len(died) > 0 {
			t.Errorf("%s: told %v", name, <-died)
		}
	}
}
