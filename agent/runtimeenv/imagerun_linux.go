package runtimeenv

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cascade-run/cascade/agent/process"
)

// shownInImage are places of the host that a program sees which is run while an image is prepared.
var shownInImage = [...]string{"/proc", "/sys", "/dev"}

// runInImage runs a program of an image to its end, with these variables alone, and
// returns the end of what it wrote.
func runInImage(ctx context.Context, root string, env []string, program string, args ...string) (out string, err error) {
	work, err := os.MkdirTemp("", "cascade-image-")
	if err != nil {
		return "", fmt.Errorf("make a folder to mount the image at: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }() // what was mounted there went with the program
	p, err := process.Start(process.Command{Path: program, Args: args, Env: env, Dir: "/",
		Root: &process.Root{Dir: root, Work: work, Binds: shownInImage[:]}})
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-p.Done()
		return "", fmt.Errorf("%s in the image: %w", program, ctx.Err())
	}
	exit := p.Wait()
	if exit.Lost || exit.Status != 0 {
		return "", newToolError(program+" in the image", withoutSecrets(string(exit.Output)), errors.New(exit.String()))
	}
	return string(exit.Output), nil
}
