package dag

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Rebuilt says what becomes of a job when a lost dataset is recomputed and has other
// bytes than before. It is reported in any case.
type Rebuilt uint8

// The policies. Without one of them a job's tasks run again as with RebuiltRerun, and
// large datasets are not compared: see docs/decisions/0034-recomputed-datasets.md.
const (
	RebuiltDefault Rebuilt = iota
	RebuiltRerun           // what has read the bytes of before runs again
	RebuiltFail            // the job fails
	RebuiltAccept          // the job goes on
)

var rebuiltNames = [...]string{"", "rerun", "fail", "accept"}

// String returns the policy as a job file has it, empty for RebuiltDefault.
func (r Rebuilt) String() string {
	if int(r) < len(rebuiltNames) {
		return rebuiltNames[r]
	}
	return fmt.Sprintf("Rebuilt(%d)", r)
}

// rebuiltOf reads a policy.
func rebuiltOf(text string) (Rebuilt, error) {
	for i, name := range rebuiltNames {
		if i > 0 && name == text {
			return Rebuilt(i), nil
		}
	}
	return 0, mistake(fmt.Sprintf("rebuilt: %q is no policy", clip(text)), "write rerun, fail or accept")
}

// rebuilt reads the policy of a job file.
func (j *jobFile) rebuilt(n *yaml.Node) {
	text, ok := j.text(n, "rebuilt")
	if !ok {
		return
	}
	var err error
	if j.g.Rebuilt, err = rebuiltOf(text); err != nil {
		j.fail(n, err)
	}
}
