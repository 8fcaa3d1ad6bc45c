package tune

import (
	"fmt"
	"strings"
)

// noSuch is the error of a name that is not one of a list: with the one that may have been meant, and the list.
func noSuch(what, name string, known []string) error {
	hint, last := "", len(known)-1
	if meant := nearest(name, known); meant != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return fmt.Errorf("there is no %s %q%s: use %s or %s", what, name, hint, strings.Join(known[:last], ", "), known[last])
}

// nearest returns the name that is most like one: with at most a third of its letters changed, added, lost or swapped with the
// next. It is empty when none is.
func nearest(name string, known []string) (best string) {
	least := 1 + min(len(name)/3, 3)
	for _, k := range known {
		if d := apart(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// apart counts the changes between two texts.
func apart(a, b string) int {
	const most = 64 // longer ones are no misspelt names
	if len(a) > most || len(b) > most {
		return most
	}
	var d [most + 1][most + 1]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], 1+d[i-2][j-2])
			}
		}
	}
	return d[len(a)][len(b)]
}
