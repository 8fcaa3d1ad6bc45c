package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// CondaPlugin names the plugin that installs packages of conda. In a job file its
// settings stand under conda; they are those of a plugin, as a host may have one of
// this name in place of the agent's own.
const CondaPlugin = "conda"

var condaKeys = []string{"channels", "packages"}

// Conda reads settings of the agent's own plugin.
func Conda(settings any) (channels, packages []string, err error) {
	m, ok := settings.(map[string]any)
	if !ok {
		return nil, nil, mistake("conda has no packages", condaHint)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		var texts []string
		switch v := m[key].(type) {
		case string:
			texts = []string{v} // a list of one
		case []any:
			for _, item := range v {
				text, _ := item.(string) // anything else is empty, which is refused
				texts = append(texts, text)
			}
		default:
			return nil, nil, mistake("conda: "+key+" is no list of texts", condaHint)
		}
		for _, text := range texts {
			if text == "" || strings.HasPrefix(text, "-") {
				return nil, nil, mistake(fmt.Sprintf("conda: %s: %q names nothing", key, clip(text)), condaHint)
			}
		}
		switch key {
		case "channels":
			channels = texts
		case "packages":
			packages = texts
		default:
			return nil, nil, mistake(fmt.Sprintf("conda: unknown key %q", clip(key)), condaHint)
		}
	}
	if len(packages) == 0 {
		return nil, nil, mistake("conda has no packages", condaHint)
	}
	return channels, packages, nil
}

const condaHint = `write conda: {channels: [conda-forge], packages: ["cdo>=2.4"]}`

// conda reads the settings under conda.
func (j *jobFile) conda(n *yaml.Node, what string) []Field {
	settings := map[string]any{}
	for _, k := range j.keyed(n, what, condaKeys) {
		texts := j.texts(k.val, what+": "+k.key.Value)
		list := make([]any, len(texts))
		for i, text := range texts {
			list[i] = text
		}
		settings[k.key.Value] = list
	}
	if _, _, err := Conda(settings); err != nil && n.Kind == yaml.MappingNode { // of another kind it was reported
		j.fail(n, err)
	}
	return []Field{{CondaPlugin, settings}}
}

// addPlugins adds settings of plugins to those that an environment has, in order of their names.
func (j *jobFile) addPlugins(e *Environment, k pair, more []Field) {
	for _, f := range more {
		if slices.ContainsFunc(e.Plugins, func(g Field) bool { return g.Name == f.Name }) {
			j.problem(k.key, fmt.Sprintf("environment %q has settings of plugin %s twice", clip(e.Name), clip(f.Name)), "conda: is short for plugins: {conda: ...}")
			return
		}
	}
	e.Plugins = append(e.Plugins, more...)
	slices.SortFunc(e.Plugins, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
}

func condaSchema() map[string]any {
	texts := func() map[string]any { return anyOf(text(), list(text())) }
	return strict(object("Packages of conda.", map[string]any{
		"channels": described(texts(), "Where packages are looked for, in this order; those of the host's settings by default."),
		"packages": described(texts(), "Packages to install, as conda writes them."),
	}), "packages")
}
