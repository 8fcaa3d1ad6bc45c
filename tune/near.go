package tune

import (
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/internal/near"
)

// noSuch is the error of a name that is not one of a list: with the one that may have been meant, and the list.
func noSuch(what, name string, known []string) error {
	hint, last := "", len(known)-1
	if meant := near.Name(name, known); meant != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return fmt.Errorf("there is no %s %q%s: use %s or %s", what, name, hint, strings.Join(known[:last], ", "), known[last])
}
