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
	"strings"
	"time"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/search"
	"github.com/cascade-run/cascade/tune/space"
)

// SpecFile is the name of the specification in the folder of an experiment.
const SpecFile = "experiment.json"

// Spec is what the folder of an experiment says of it. Parts that are Go code alone are named, and a program that
// resumes the experiment provides them.
type Spec struct {
	Format    int           `json:"format"` // 1
	Name      string        `json:"name"`
	Created   time.Time     `json:"created,omitzero"`
	Trainable Trainable     `json:"trainable"`
	Space     space.Space   `json:"space,omitempty"`
	Points    []core.Values `json:"points_to_evaluate,omitempty"`
	Constant  bool          `json:"constant_grid_search,omitempty"`
	Limit     int           `json:"max_concurrent,omitempty"`
	Trials    int           `json:"trials"` // how many there may be; -1: until the searcher has no more
	Options   core.Options  `json:"options"`
	Scheduler SchedulerSpec `json:"scheduler"`
	Searcher  *SearcherSpec `json:"searcher,omitempty"`
	Own       []string      `json:"own,omitempty"` // "space", "searcher", "scheduler", "stopper": they are Go code
}

// SchedulerSpec is a scheduler in a file: {"type": "asha", "max_t": 27}.
type SchedulerSpec struct{ core.Scheduler }

// schedulers are the types that files know, by name.
var schedulers = map[string]func() core.Scheduler{
	"fifo":      func() core.Scheduler { return &core.FIFO{} },
	"asha":      func() core.Scheduler { return &sched.ASHA{} },
	"hyperband": func() core.Scheduler { return &sched.HyperBand{} },
	"median":    func() core.Scheduler { return &sched.Median{} },
	"pbt":       func() core.Scheduler { return &sched.PBT{} },
}

func schedulerName(s core.Scheduler) string {
	if _, ok := s.(core.FIFO); ok || s == nil {
		return "fifo"
	}
	for name, fresh := range schedulers {
		if reflect.TypeOf(fresh()) == reflect.TypeOf(s) {
			return name
		}
	}
	return ""
}

// MarshalJSON writes the type with the rules.
func (s SchedulerSpec) MarshalJSON() ([]byte, error) {
	name := schedulerName(s.Scheduler)
	if name == "" {
		return json.Marshal(map[string]any{"type": "own", "go": fmt.Sprintf("%T", s.Scheduler)})
	}
	b, err := json.Marshal(s.Scheduler)
	if err != nil {
		return nil, err
	}
	m := map[string]json.RawMessage{}
	if s.Scheduler != nil {
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, err
		}
	}
	m["type"] = json.RawMessage(`"` + name + `"`)
	return json.Marshal(m)
}

// UnmarshalJSON reads a scheduler by its type. A rule that the type has not is an error. "own" leaves it nil.
func (s *SchedulerSpec) UnmarshalJSON(b []byte) error {
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	name := "fifo"
	if t, ok := m["type"]; ok {
		if err := json.Unmarshal(t, &name); err != nil {
			return fmt.Errorf("scheduler: type: %w", err)
		}
	}
	if name == "own" {
		s.Scheduler = nil
		return nil
	}
	fresh, ok := schedulers[name]
	if !ok {
		return fmt.Errorf("scheduler: %w", noSuch("type", name, slices.Sorted(maps.Keys(schedulers))))
	}
	delete(m, "type")
	rest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	s.Scheduler = fresh()
	if err := onlyKeys("scheduler "+name+": ", m, reflect.TypeOf(s.Scheduler).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(rest, s.Scheduler); err != nil {
		return fmt.Errorf("scheduler %s: %w", name, wrongType(err))
	}
	return nil
}

// Scheduler returns a fresh one by the rules in a text, such as `{"type": "asha", "max_t": 27}`, or by a name alone.
func Scheduler(text string) (core.Scheduler, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		if _, ok := schedulers[text]; !ok {
			return nil, noSuch("scheduler", text, slices.Sorted(maps.Keys(schedulers)))
		}
		text = `{"type": "` + text + `"}`
	}
	var s SchedulerSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, err
	}
	return s.Scheduler, checked(s.Scheduler)
}

func checked(s core.Scheduler) error {
	if c, ok := s.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// spec describes the tuner for its folder.
func (t *Tuner) spec() (*Spec, error) {
	s := &Spec{Format: 1, Name: t.Name, Created: time.Now().UTC(), Trainable: t.Trainable, Constant: t.Constant, Limit: t.Limit,
		Options: t.Options, Scheduler: SchedulerSpec{t.Scheduler}}
	for i, p := range t.Points {
		x, err := core.Canonical(p)
		if err != nil {
			return nil, fmt.Errorf("point %d to evaluate: %w", i, err)
		}
		s.Points = append(s.Points, x.(map[string]any))
	}
	if _, err := json.Marshal(t.Space); err == nil {
		s.Space = t.Space
	} else {
		s.Own = append(s.Own, "space")
	}
	s.Searcher = t.Program
	if t.Searcher != nil && t.Program == nil {
		s.Own = append(s.Own, "searcher")
	}
	if schedulerName(t.Scheduler) == "" {
		s.Own = append(s.Own, "scheduler")
	}
	if t.Options.Stopper != nil {
		s.Own = append(s.Own, "stopper")
	}
	return s, nil
}

// points are configurations as a tuner has them.
func points(of []core.Values) []map[string]any {
	var out []map[string]any
	for _, p := range of {
		out = append(out, p)
	}
	return out
}

// ReadSpec reads the specification of the experiment in a folder.
func ReadSpec(folder string) (*Spec, error) {
	path := filepath.Join(folder, SpecFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not the folder of an experiment: it has no %s", folder, SpecFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the specification: %w", err)
	}
	var s Spec
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Format != 1 {
		return nil, fmt.Errorf("%s has format %d, this program reads 1: use the version that wrote it", path, s.Format)
	}
	return &s, nil
}

func (s *Spec) write(folder string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	path := filepath.Join(folder, SpecFile)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	if err := syncFile(path + ".new"); err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the specification: %w", err)
	}
	return syncFile(folder)
}

// complete takes from the folder what a tuner that resumes has not, and says what is missing.
func (s *Spec) complete(t *Tuner) error {
	for _, own := range s.Own {
		missing := map[string]bool{"space": t.Space == nil && t.Searcher == nil, "searcher": t.Searcher == nil, "scheduler": t.Scheduler == nil, "stopper": t.Options.Stopper == nil}[own]
		if missing {
			return fmt.Errorf("the %s of experiment %s is Go code: resume it with the program that ran it", own, s.Name)
		}
	}
	stopper := t.Options.Stopper
	t.Name, t.Options, t.Points, t.Constant, t.Limit = s.Name, s.Options, points(s.Points), s.Constant, s.Limit
	t.Options.Stopper = stopper
	if s.Space != nil {
		t.Space = s.Space
	}
	if s.Searcher != nil {
		t.Program = s.Searcher
	}
	if s.Scheduler.Scheduler != nil {
		t.Scheduler = s.Scheduler.Scheduler
	}
	if t.Trainable == (Trainable{}) {
		t.Trainable = s.Trainable
	}
	t.Reuse = t.Reuse || t.Trainable.Serve != nil
	if t.Trainable.Name != s.Trainable.Name {
		return fmt.Errorf("experiment %s trains %q, not %q", s.Name, s.Trainable.Name, t.Trainable.Name)
	}
	return nil
}

// searcher returns the searcher of the tuner, and how many trials it has; -1: that is not known.
func (t *Tuner) searcher() (search.Searcher, int, error) {
	s, trials := t.Searcher, t.Options.Samples
	if s == nil {
		v := &search.Variants{Space: t.Space, Seed: t.Options.Seed, Samples: t.Options.Samples, Constant: t.Constant, Points: t.Points}
		if _, err := v.Space.Draw(v.Seed, 0, 0); err != nil {
			return nil, 0, fmt.Errorf("the space: %w", err)
		}
		n, err := v.Trials()
		if err != nil {
			return nil, 0, err
		}
		s, trials = v, n
	} else if trials == 0 {
		trials = -1
	}
	if t.Limit > 0 {
		s = &search.Limiter{Searcher: s, Max: t.Limit}
	}
	return s, trials, nil
}
