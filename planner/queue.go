package planner

// queue is a heap of numbers by key, smallest first, ties by number.
type queue struct {
	key  []float64
	item []int32
}

func (q *queue) len() int { return len(q.item) }

func (q *queue) clear() { q.key, q.item = q.key[:0], q.item[:0] }

func (q *queue) before(a, b int) bool {
	if q.key[a] != q.key[b] {
		return q.key[a] < q.key[b]
	}
	return q.item[a] < q.item[b]
}

func (q *queue) swap(a, b int) {
	q.key[a], q.key[b] = q.key[b], q.key[a]
	q.item[a], q.item[b] = q.item[b], q.item[a]
}

func (q *queue) push(key float64, item int32) {
	q.key, q.item = append(q.key, key), append(q.item, item)
	for at := len(q.item) - 1; at > 0; {
		up := (at - 1) / 2
		if !q.before(at, up) {
			return
		}
		q.swap(at, up)
		at = up
	}
}

// pop takes out the first item. The queue must not be empty.
func (q *queue) pop() int32 {
	first, last := q.item[0], len(q.item)-1
	q.swap(0, last)
	q.key, q.item = q.key[:last], q.item[:last]
	for at := 0; ; {
		least := at
		for _, down := range [2]int{2*at + 1, 2*at + 2} {
			if down < last && q.before(down, least) {
				least = down
			}
		}
		if least == at {
			return first
		}
		q.swap(at, least)
		at = least
	}
}
