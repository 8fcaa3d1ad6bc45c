package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cascade-run/cascade/internal/near"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// fileSpec is an experiment in a file that people write.
type fileSpec struct {
	Name        string            `json:"name"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Lockstep    bool              `json:"lockstep"`
	Serve       []string          `json:"serve"`
	Class       bool              `json:"class"`
	Searcher    []string          `json:"searcher"`
	SearcherBy  string            `json:"searcher_metric"`
	Space       space.Space       `json:"space"`
	Points      []core.Values     `json:"points_to_evaluate"`
	Constant    bool              `json:"constant_grid_search"`
	Metric      string            `json:"metric"`
	Mode        string            `json:"mode"`
	Samples     int               `json:"samples"`
	Seed        int64             `json:"seed"`
	Slots       int               `json:"slots"`
	Limit       int               `json:"max_concurrent"`
	Scheduler   *SchedulerSpec    `json:"scheduler"`
	Stop        map[string]any    `json:"stop"`
	Budget      string            `json:"budget"`
	MaxFailures int               `json:"max_failures"`
	FailFast    bool              `json:"fail_fast"`
	Lenient     bool              `json:"lenient"`
	Strict      bool              `json:"strict"`
	Checkpoints fileCheckpoints   `json:"checkpoints"`
}

type fileCheckpoints struct {
	Keep  int    `json:"keep"`
	By    string `json:"by"`
	Mode  string `json:"mode"`
	Every int    `json:"every"`
	AtEnd bool   `json:"at_end"`
}

// ReadFile reads the description of an experiment in YAML, whose trainable is a program. The program runs in the folder
// of the file. Experiments are stored in the folder experiments beside it.
func ReadFile(path string) (*Tuner, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the experiment: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	t, err := parse(text, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func parse(text []byte, dir string) (*Tuner, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if top, ok := tree.(map[string]any); ok {
		if err := onlyKeys("", top, reflect.TypeFor[fileSpec]()); err != nil {
			return nil, err
		}
		if in, ok := top["checkpoints"].(map[string]any); ok {
			if err := onlyKeys("checkpoints: ", in, reflect.TypeFor[fileCheckpoints]()); err != nil {
				return nil, err
			}
		}
		for _, key := range []string{"space", "points_to_evaluate"} { // here 1.0 is a float; a count is a count also as 1e3
			if x, ok := top[key]; ok {
				top[key] = space.Exact(x)
			}
		}
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	f := fileSpec{Mode: "min"}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, wrongType(err)
	}
	return f.tuner(dir)
}

// wrongType says in words of YAML what the decoder says in words of JSON.
func wrongType(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("key %s: it is a %s", wrong.Field, wrong.Value)
	}
	return err
}

// onlyKeys returns an error for a key of a map that a struct does not read, with the one that may have been meant.
func onlyKeys[V any](in string, m map[string]V, of reflect.Type) error {
	known := keys(of)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(known, key) {
			continue
		}
		if meant := near.Name(key, known); meant != "" {
			return fmt.Errorf("%sthere is no key %q: did you mean %q?", in, key, meant)
		}
		if len(known) == 0 {
			return fmt.Errorf("%sthere is no key %q: it has none", in, key)
		}
		return fmt.Errorf("%sthere is no key %q: use %s", in, key, strings.Join(known, ", "))
	}
	return nil
}

// keys are those that a struct reads.
func keys(of reflect.Type) (all []string) {
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (f *fileSpec) tuner(dir string) (*Tuner, error) {
	t := &Tuner{Name: f.Name, Storage: filepath.Join(dir, "experiments"), Space: f.Space, Points: points(f.Points), Constant: f.Constant, Limit: f.Limit,
		Trainable: Command(CommandSpec{Args: f.Command, Env: f.Environment, Dir: dir, Lockstep: f.Lockstep}), Executor: Local(f.Slots),
		Options: Options{Metric: f.Metric, SearcherMetric: f.SearcherBy, Samples: f.Samples, Seed: f.Seed, MaxFailures: f.MaxFailures, FailFast: f.FailFast, Lenient: f.Lenient, Strict: f.Strict,
			Keep: f.Checkpoints.Keep, KeepBy: f.Checkpoints.By, Every: f.Checkpoints.Every, AtEnd: f.Checkpoints.AtEnd}}
	if len(f.Serve) > 0 {
		t.Trainable, t.Reuse = Serve(ServeSpec{Args: f.Serve, Class: f.Class}), true
	} else if len(f.Command) == 0 {
		return nil, errors.New("the key command is missing: the program that trains, such as [python3, train.py, --lr, \"{lr}\"]")
	}
	if len(f.Searcher) > 0 {
		t.Program = &SearcherSpec{Args: f.Searcher}
	}
	var err error
	if t.Options.Max, err = mode("mode", f.Mode); err != nil {
		return nil, err
	}
	if f.Checkpoints.By != "" {
		most, err := mode("checkpoints.mode", f.Checkpoints.Mode)
		if err != nil {
			return nil, err
		}
		t.Options.KeepMin = !most
	}
	if f.Scheduler != nil {
		t.Scheduler = f.Scheduler.Scheduler
	}
	if f.Budget != "" {
		if t.Options.Budget, err = time.ParseDuration(f.Budget); err != nil {
			return nil, fmt.Errorf("key budget: %w: write 90s, 10m or 2h", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Stop)) {
		c, err := condition(key, f.Stop[key])
		if err != nil {
			return nil, err
		}
		t.Options.Stop = append(t.Options.Stop, c)
	}
	return t, t.Check()
}

func mode(key, text string) (most bool, err error) {
	switch text {
	case "max":
		return true, nil
	case "min":
		return false, nil
	}
	return false, fmt.Errorf("key %s: it is %q, use min or max", key, text)
}

// condition reads what stops a trial: a number that the value has to reach, or a text such as "<= 0.1".
func condition(key string, x any) (core.Condition, error) {
	c := core.Condition{Key: key}
	switch x := x.(type) {
	case float64:
		c.Value = x
		return c, nil
	case string:
		text, ok := strings.CutPrefix(x, "<=")
		if c.AtMost = ok; !ok {
			text, ok = strings.CutPrefix(x, ">=")
		}
		var err error
		if c.Value, err = strconv.ParseFloat(strings.TrimSpace(text), 64); ok && err == nil {
			return c, nil
		}
	}
	return c, fmt.Errorf("key stop.%s: it is %v, use a number that ends the trial when it is reached, or a text such as \"<= 0.1\"", key, x)
}
