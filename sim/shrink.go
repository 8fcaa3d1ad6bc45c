package sim

import (
	"regexp"
	"slices"
)

// Shrink looks for the shortest story with the end of a seed that fails: it takes
// one kind of trouble after the other out, then one group of tasks after the other,
// as long as the run still fails for the same reason, numbers aside. It returns what
// can be left out, with what was; Options.Without replays that. Nil when the seed does not fail.
func Shrink(opt Options) (without []string) { return shrink(opt, Run) }

func shrink(opt Options, run func(Options) Result) (without []string) {
	opt.Story = false
	whole := run(opt)
	if whole.Err == nil {
		return nil
	}
	without = append([]string{}, opt.Without...)
	var names []string
	for _, t := range tamings() {
		names = append(names, t.name)
	}
	// The last groups first: nothing needs them.
	parts := slices.Clone(whole.Parts)
	slices.Reverse(parts)
	names = append(names, parts...)
	for again := true; again; {
		again = false
		for _, name := range names {
			if slices.Contains(without, name) {
				continue
			}
			more := append(slices.Clone(without), name)
			opt.Without = more
			if res := run(opt); res.Err != nil && kind(res.Err) == kind(whole.Err) {
				without, again = more, true
			}
		}
	}
	return without
}

// kind is what a failure says without its numbers and names.
func kind(err error) string {
	return regexp.MustCompile(`\(.*|; .*|g?[0-9]+(\[[^]]*\])?`).ReplaceAllString(err.Error(), "#")
}
