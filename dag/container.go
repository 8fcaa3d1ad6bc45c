package dag

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Container is an image whose file system the processes of an environment see.
type Container struct {
	Image string // as podman names it
}

// environmentWhole is how many elements an encoded environment has with a container
// or settings of plugins, which came later.
const environmentWhole = 10

var containerKeys = []string{"image"}

// container reads the text IMAGE or a mapping.
func (j *jobFile) container(n *yaml.Node, what string) *Container {
	c := &Container{}
	if n.Kind == yaml.ScalarNode {
		c.Image, _ = j.text(n, what)
		return c
	}
	for _, k := range j.keyed(n, what, containerKeys) {
		c.Image, _ = j.text(k.val, what+": "+k.key.Value)
	}
	return c
}

// plugins reads the settings of plugins, sorted by name.
func (j *jobFile) plugins(n *yaml.Node, what string) (all []Field) {
	for _, p := range j.pairs(n, what) {
		v, ok := j.value(p.val)
		if !ok {
			continue
		}
		v, err := j.ps.resolveValue(v, j.sc, noRow{})
		if err != nil {
			j.fail(p.val, err)
			continue
		}
		all = append(all, Field{p.key.Value, v})
	}
	slices.SortFunc(all, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func checkContainer(e *Environment) error {
	if e.Container == nil {
		return nil
	}
	image := e.Container.Image
	if image == "" || strings.HasPrefix(image, "-") || strings.ContainsAny(image, " \t\r\n") {
		return mistake("it has a container without an image", "container: IMAGE, as podman names it")
	}
	if py := e.Python; py != nil && (len(py.Pip) > 0 || py.Wheels != "" || py.Offline) {
		return mistake("it has packages (pip, wheels or offline) and a container", "Python functions in a container take python3 and the packages of its image: put them there, and write python: {} here")
	}
	return checkText(image)
}

// checkPlugins finds what is wrong with settings of plugins, as far as it can be told without them.
func checkPlugins(all []Field) error {
	for i, f := range all {
		if err := checkName("a plugin", f.Name); err != nil {
			return err
		}
		if i > 0 && all[i-1].Name >= f.Name {
			return mistake("its plugins are not sorted by name, each once", "")
		}
		if err := checkValue(f.Value, 0); err != nil {
			return err
		}
	}
	return nil
}

// containerText is the settings of container and plugins, as a job file has them.
func containerText(e *Environment) (w []string) {
	if c := e.Container; c != nil {
		w = append(w, "container: "+quote(escapeText(c.Image)))
	}
	if len(e.Plugins) > 0 {
		var p []string
		for _, f := range e.Plugins {
			p = append(p, quote(f.Name)+": "+flow(escapeValue(f.Value)))
		}
		w = append(w, "plugins: {"+strings.Join(p, ", ")+"}")
	}
	return w
}

func (e encoder) container(c *Container) {
	if c == nil {
		e.array(0)
		return
	}
	e.array(1)
	e.string(c.Image)
}

func (d *decoder) container() *Container {
	switch n := d.array(); n {
	case 0:
	case 1:
		return &Container{Image: d.string()}
	default:
		d.fail(fmt.Errorf("container of %d elements", n))
	}
	return nil
}

func containerSchema() map[string]any {
	return described(anyOf(text(), strict(object("A container.", map[string]any{
		"image": described(text(), "Image, as podman names it."),
	}), "image")), "Image whose file system its processes see.")
}
