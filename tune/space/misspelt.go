package space

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/internal/near"
)

// Misspelt says which maps of the space were probably meant to be domains: {"unifrom": [0, 1]} would be a parameter of
// that name, with the list as its value, and nothing would be drawn.
func (s Space) Misspelt() error {
	var errs []error
	walkMaps("", s, func(path string, in Space) {
		for _, k := range sorted(in) {
			if err := misspelt(path, k, in); err != nil {
				errs = append(errs, err)
			}
		}
	})
	return errors.Join(errs...)
}

func misspelt(path, key string, in Space) error {
	at := strings.TrimPrefix(path+"/"+key, "/")
	_, isList := in[key].([]any)
	text, _ := in[key].(string)
	known := names()
	switch alone := len(in) == 1 && path != ""; {
	case isList && slices.Contains(known, key) && key != "grid" || alone && isList && key == "grid":
		if path == "" {
			return fmt.Errorf("parameter %s has the name of a domain, and a list: write the name of a parameter before it, as in {x: {%s: [...]}}; %s", at, key, isParameter(key))
		}
		return fmt.Errorf("parameter %s: %q is the name of a domain, which is alone in its map: the map has %s; %s", path, key, strings.Join(sorted(in), ", "), isParameter(key))
	case alone && isList, alone && strings.ContainsAny(text, "*+/("):
		if meant := near.Name(key, known); meant != "" && (meant == "expr") == !isList {
			return fmt.Errorf("parameter %s: there is no domain %q: did you mean %q? If not, %s", path, key, meant, isParameter(key))
		}
	}
	return nil
}

// isParameter says how a parameter is written whose name is like that of a domain.
func isParameter(key string) string {
	return fmt.Sprintf("a parameter %s of one value is written {%s: {choice: [VALUE]}}", key, key)
}

// names are those of all domains in files.
func names() []string {
	return append(slices.Sorted(maps.Keys(domains)), "choice", "grid_search", "grid", "expr")
}

// walkMaps visits each map, by path.
func walkMaps(path string, x any, visit func(string, Space)) {
	join := func(k string) string { return strings.TrimPrefix(path+"/"+k, "/") }
	switch x := x.(type) {
	case Space:
		visit(path, x)
		for _, k := range sorted(x) {
			walkMaps(join(k), x[k], visit)
		}
	case map[string]any:
		walkMaps(path, Space(x), visit)
	case []any:
		for i, v := range x {
			walkMaps(join(fmt.Sprint(i)), v, visit)
		}
	case Values:
		for _, v := range x {
			walkMaps(path, v, visit)
		}
	case Grid:
		for _, v := range x {
			walkMaps(path, v, visit)
		}
	}
}

// Paths returns the paths of all parameters, of those in choices, too, and of the maps that have them.
func (s Space) Paths() []string {
	var all []string
	walkMaps("", s, func(path string, in Space) {
		for _, k := range sorted(in) {
			all = append(all, strings.TrimPrefix(path+"/"+k, "/"))
		}
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// computed tells whether a Go function makes the parameter at a path, or one around it: what it has is not known before it is drawn.
func (s Space) computed(path string) bool {
	found := false
	walk("", s, func(at string, x any) {
		_, is := x.(From)
		found = found || is && strings.HasPrefix(path+"/", at+"/")
	})
	return found
}

// Has returns an error if the space has no parameter at the path, with the one that may have been meant.
func (s Space) Has(path string) error {
	known := s.Paths()
	if slices.Contains(known, path) || s.computed(path) {
		return nil
	}
	if meant := near.Name(path, known); meant != "" {
		return fmt.Errorf("the space has no parameter %q: did you mean %q?", path, meant)
	}
	return fmt.Errorf("the space has no parameter %q: it has %s", path, strings.Join(known, ", "))
}
