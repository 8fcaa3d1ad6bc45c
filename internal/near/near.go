// Package near finds the name that may have been meant by a misspelt one.
//
//	"mediann" ──▶ Name, among "asha", "fifo", "median" ──▶ "median"
//
// Invariants:
//   - It knows texts alone: packages at the bottom and libraries of users may import it.
//   - A name is near when at most a third of its letters, and three at most, are changed, added, lost or swapped with the next.
package near

// Name returns the one of known that is most like word, the first of several; "" when none is near.
func Name(word string, known []string) (best string) {
	least := 1 + min(len(word)/3, 3)
	for _, k := range known {
		if d := distance(word, k, least); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the optimal string alignment distance (Levenshtein with swaps of
// neighbours), or limit when it is not smaller.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 256 || len(b) > 256 {
		return limit
	}
	var prev2 []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return min(prev[len(b)], limit)
}
