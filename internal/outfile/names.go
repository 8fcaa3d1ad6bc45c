package outfile

import (
	"path/filepath"
	"strings"
)

// Within is a path that starts at dir, unless it is absolute.
func Within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Place is a dataset and what its output has as to: "" for none.
type Place struct{ Name, To string }

// Paths returns where datasets go, "" for those without a place. In a folder a file
// has the name of its dataset, put plainly; those that would have one name, also with
// datasets that are missing now, have names as references write them. That is left to what
// is known when the job has run: CheckOutputs refuses names that are known to meet before.
func Paths(dir string, places []Place, missing []string) []string {
	names := make(map[string]string, len(places)) // plain file names, and the datasets that have them first
	meet := map[string]bool{}
	add := func(dataset string) {
		name := PlainName(dataset)
		if first, ok := names[name]; !ok {
			names[name] = dataset
		} else if first != dataset {
			meet[name] = true
		}
	}
	for _, p := range places {
		add(p.Name)
	}
	for _, name := range missing {
		add(name)
	}
	paths := make([]string, len(places))
	for i, p := range places {
		switch {
		case p.To == "":
		case !strings.HasSuffix(p.To, "/"):
			paths[i] = Within(dir, p.To)
		default:
			name := PlainName(p.Name)
			if meet[name] {
				name = exactName(p.Name)
			}
			paths[i] = filepath.Join(Within(dir, p.To), name)
		}
	}
	return paths
}

// fileParts are what a dataset's file is named by: the task with the number of an element,
// and the output with its dot, which becomes the file's extension.
func fileParts(dataset string) (task, output string) {
	task = dataset
	if dot := strings.LastIndexByte(dataset, '.'); dot >= 0 {
		task, output = dataset[:dot], dataset[dot:]
	}
	if at := strings.IndexByte(output, '['); at >= 0 {
		task, output = task+output[at:], output[:at]
	}
	return task, output
}

// PlainName is the name of a dataset's file: map-3-500.png of map[3,500].png. Values of loop
// variables may be any text, so a slash in one must not lead into another folder.
func PlainName(dataset string) string {
	task, output := fileParts(dataset)
	return strings.NewReplacer("[", "-", "]", "", ",", "-", "/", "_").Replace(task) + output
}

// exactName is a file name that no other dataset has, plainly or exactly.
func exactName(dataset string) string {
	task, output := fileParts(dataset)
	return strings.NewReplacer("/", "%2F", "%", "%25").Replace(task) + output
}
