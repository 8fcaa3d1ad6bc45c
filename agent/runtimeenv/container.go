package runtimeenv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/dag"
)

// containerPlugin unpacks an image, in whose files executors then run.
//
//	podman image inspect ─▶ key: the image's ID ─▶ podman create, export ─▶ rootfs, image.json ─▶ Activation.Root
//	        └─ not here ─▶ podman pull, and again
//
// podman brings images and knows what is in them; it does not run them. A process that
// it starts is not our child: it would not be bounded, measured and ended as every
// executor is. So the agent starts it in the unpacked files by itself (agent/process).
type containerPlugin struct{}

const (
	imageRoot = "rootfs"     // folder of its files
	imageFile = "image.json" // what of its configuration counts
	imagePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// image is what podman says of an image.
type image struct {
	ID     string `json:"Id"`
	Config struct{ Env []string }
}

func (containerPlugin) Name() string                        { return "container" }
func (containerPlugin) Priority() int                       { return 3 }
func (containerPlugin) Applies(env dag.Environment) bool    { return env.Container != nil }
func (containerPlugin) Delete(string) error                 { return nil }
func (containerPlugin) Describe(env dag.Environment) string { return env.Container.Image }

// engines are programs that have images, with the same commands.
var engines = []string{"podman", "docker"}

func findEngine() (string, error) {
	for _, name := range engines {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("container: podman is not on this host, which brings images: install it")
}

func (containerPlugin) Validate(dag.Environment) error {
	_, err := findEngine()
	return err
}

// run runs the engine; out is where its output goes, nil: it is returned.
func (containerPlugin) run(ctx context.Context, out io.Writer, args ...string) ([]byte, error) {
	path, err := findEngine()
	if err != nil {
		return nil, err
	}
	return tool{name: filepath.Base(path) + " " + args[0], dir: os.TempDir(), out: out}.run(ctx, path, args...)
}

// noImage is how engines say that they do not have an image.
var noImage = regexp.MustCompile(`(?i)image not known|no such (image|object)`)

// find returns the image; nil when the host does not have it.
func (p containerPlugin) find(ctx context.Context, name string) (*image, error) {
	text, err := p.run(ctx, nil, "image", "inspect", name)
	var failed *ToolError
	if errors.As(err, &failed) && noImage.MatchString(failed.Output) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []image
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("container: read what is said of image %s: %w", name, err)
	}
	if len(found) != 1 || found[0].ID == "" {
		return nil, fmt.Errorf("container: image %s: %d images of this name", name, len(found))
	}
	return &found[0], nil
}

// Key is the image's identity: that of its content. The name of an image that is
// not here has another: once it is, the key is computed again.
func (p containerPlugin) Key(ctx context.Context, env dag.Environment) (string, error) {
	found, err := p.find(ctx, env.Container.Image)
	if err != nil {
		return "", err
	}
	h := hasher{blake3.New()}
	h.text("cascade container 1")
	if found == nil {
		h.text("name", env.Container.Image)
	} else {
		h.text("image", found.ID)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// Create unpacks the image, or brings it to this host.
func (p containerPlugin) Create(ctx context.Context, env dag.Environment, b *Build) error {
	name := env.Container.Image
	found, err := p.find(ctx, name)
	if err != nil {
		return err
	}
	if found == nil {
		b.Tell("pulls the image " + name)
		return p.pull(ctx, name)
	}
	text, err := json.Marshal(found)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(b.Dir, imageFile), text, 0o600), os.Mkdir(filepath.Join(b.Dir, imageRoot), 0o700))
	}
	if err != nil {
		return fmt.Errorf("container: %w", err)
	}
	return p.unpack(ctx, found.ID, containerName(b.Place), filepath.Join(b.Dir, imageRoot))
}

// pull brings an image. One that is not here by its name afterwards, such as that of an
// archive, has no key of its own: it is an error.
func (p containerPlugin) pull(ctx context.Context, name string) error {
	id, err := p.run(ctx, nil, "pull", "--quiet", name)
	if err != nil {
		return err
	}
	found, err := p.find(ctx, name)
	if err != nil {
		return fmt.Errorf("container: look for image %s that was pulled: %w", name, err)
	}
	if found == nil {
		return fmt.Errorf("container: image %[1]s was pulled as %[2]s, but is not found by its name: give it one (podman tag %[2]s NAME) that the job uses", name, strings.TrimSpace(string(id)))
	}
	return nil
}

// containerName is that of the container from which a place of the cache is filled: whoever
// has the lock of the place may remove it.
func containerName(place string) string {
	sum := blake3.Sum256([]byte(place))
	return "cascade-" + hex.EncodeToString(sum[:16])
}

// removeLimit is how long an engine may take to remove a container.
const removeLimit = 30 * time.Second

// remove removes a container, also when ctx has ended.
func (p containerPlugin) remove(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	_, err := p.run(ctx, nil, "rm", "-f", container)
	return err
}

// unpack writes the image's files to a folder: those of a container that is made of it and never starts.
func (p containerPlugin) unpack(ctx context.Context, id, container, to string) (err error) {
	// An agent that was killed left it behind. Mostly there is none, which some engines call
	// a failure; one that stays has its name, and create says so.
	_ = p.remove(ctx, container)
	if _, err := p.run(ctx, nil, "create", "--name", container, id, "true"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(ctx, container)) }()
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := untar(r, to)
		_, _ = io.Copy(io.Discard, r) // what stands behind the last file, or behind the one that failed
		unpacked <- err
	}()
	_, err = p.run(ctx, w, "export", container)
	w.CloseWithError(err)
	if failed := <-unpacked; err == nil && failed != nil {
		err = fmt.Errorf("container: %w", failed)
	}
	return err
}

// Activate lets executors see the image's files, with its variables.
func (containerPlugin) Activate(_ dag.Environment, dir string, act *Activation) error {
	text, err := os.ReadFile(filepath.Join(dir, imageFile))
	if err != nil {
		return err
	}
	var found image
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("read %s: %w", imageFile, err)
	}
	act.Root = filepath.Join(dir, imageRoot)
	for _, kv := range slices.Concat([]string{imagePath}, found.Config.Env) {
		if name, value, ok := strings.Cut(kv, "="); ok {
			act.setVar(name, value)
		}
	}
	return nil
}
