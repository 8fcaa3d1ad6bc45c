package doctor

import "fmt"

// State is how a check ended.
type State string

// The states. With a fail nothing runs, or not for long; with a warn something is
// missing that some jobs need.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Line is what one check found.
type Line struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`
	Mend  string `json:"fix,omitempty"` // "" when all is well
}

func ok(check, format string, args ...any) Line {
	return Line{Check: check, State: OK, Found: fmt.Sprintf(format, args...)}
}

// or is the line, in a worse state with its fix if bad.
func (l Line) or(bad bool, s State, mend string, args ...any) Line {
	if bad {
		l.State, l.Mend = s, fmt.Sprintf(mend, args...)
	}
	return l
}

func unseen(check string, err error) Line {
	return Line{Check: check, State: Warn, Found: err.Error(), Mend: "look yourself: this could not be read"}
}
