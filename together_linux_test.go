package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/statedir"
)

// Of programs that open one state folder at the same time one has the cluster, and
// the others wait until it listens.
func TestOpenedTogether(t *testing.T) {
	state := cascade.WithState(t.TempDir())
	var all [3]*cascade.Cluster
	var errs [3]error
	var g sync.WaitGroup
	for i := range all {
		g.Go(func() { all[i], errs[i] = cascade.Local(t.Context(), state, cascade.WithStore(64<<20)) })
	}
	g.Wait()
	owners := 0
	for _, last := range []bool{false, true} {
		for i, c := range all {
			if c == nil || c.Owned() != last {
				continue
			}
			if last {
				owners++
			}
			errs[i] = errors.Join(errs[i], c.Close())
		}
	}
	if err := errors.Join(errs[:]...); err != nil || owners != 1 {
		t.Errorf("%d have the cluster: %v", owners, err)
	}
}

// An owner that ends before it listens is replaced by who waits for it; one that
// never listens is waited for no longer than the context allows.
func TestOwnerIsAwaited(t *testing.T) {
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("ends %t", ends), func(t *testing.T) {
			dir := t.TempDir()
			held, err := statedir.Lock(filepath.Join(dir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var c *cascade.Cluster
			opened := make(chan error, 1)
			go func() {
				var err error
				c, err = cascade.Local(ctx, cascade.WithState(dir), cascade.WithStore(64<<20))
				opened <- err
			}()
			for _, err := os.Stat(filepath.Join(dir, "joined")); err != nil; _, err = os.Stat(filepath.Join(dir, "joined")) {
				time.Sleep(time.Millisecond) // another opens it: there is no event
			}
			impatient := errors.New("impatient")
			if ends {
				held.Close()
			} else {
				cancel(impatient)
			}
			err = <-opened
			if c != nil {
				defer c.Close()
			}
			if ends && (err != nil || !c.Owned()) || !ends && !errors.Is(err, impatient) {
				t.Errorf("%v", err)
			}
		})
	}
}
