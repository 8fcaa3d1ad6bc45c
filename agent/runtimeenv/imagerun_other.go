//go:build !linux

package runtimeenv

import (
	"context"
	"errors"
)

// runInImage needs Linux. No agent runs here: environments are only listed and pruned.
func runInImage(context.Context, string, []string, string, ...string) (string, error) {
	return "", errors.New("programs of an image run on Linux only")
}
