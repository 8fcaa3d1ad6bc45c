package runtimeenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/internal/diskspace"
)

// room bounds how far environments may fill the disk of a folder.
type room struct {
	beside string // folder on whose disk environments leave floor bytes free; "": they may fill theirs
	floor  uint64
	look   time.Duration // how often it looks while something is built
	free   func(dir string) (uint64, error)
}

// lookAtDisk is how often; what a build writes in between takes of the space between its floor and that of commits.
const lookAtDisk = time.Second

// Leave bounds how far environments may fill the disk of a folder, if theirs is the same: a build that leaves less
// than so many free bytes does not begin, or is ended and removed, and fails.
func (c *Cache) Leave(folder string, floor uint64) { c.room.beside, c.room.floor = folder, floor }

// left is an error when the disk of dir has less than the floor; then is what happened to the environment.
func (r *room) left(dir, then string) error {
	if r.beside == "" {
		return nil
	}
	same, err := diskspace.Same(dir, r.beside)
	if err != nil || !same {
		return err
	}
	free, err := r.free(dir)
	if err != nil {
		return err
	}
	if err := diskspace.Leaves(dir, free, 0, r.floor); err != nil {
		return fmt.Errorf("%s (cascade rm environments frees what is not in use, --cache names another folder): %w", then, err)
	}
	return nil
}

// build has create build on the disk of dir, and ends it when it takes too much of that.
func (r *room) build(ctx context.Context, dir string, create func(context.Context) error) error {
	if err := r.left(dir, "it is not built"); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(r.look)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := r.left(dir, "its build was ended"); errors.Is(err, diskspace.ErrLow) {
					end(err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err := create(ctx)
	end(nil)
	<-watched
	if low := context.Cause(ctx); errors.Is(low, diskspace.ErrLow) { // says more than that its tool was ended
		return low
	}
	return err
}
