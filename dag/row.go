package dag

import (
	"strconv"
)

// groupRow is the row of one task of a group.
type groupRow struct {
	group   *Group
	local   uint32
	element uint64
	known   bool // element is known: an instance rather than a slot
}

// axis returns the axis behind a variable and the task's position on it; nil for the stream's variable.
func (r *groupRow) axis(slot int) (*Axis, int) {
	if r.group.Stream != nil {
		slot--
	}
	if slot < 0 {
		return nil, 0
	}
	rest := int(r.local)
	for i := len(r.group.Axes) - 1; i > slot; i-- {
		rest /= r.group.Axes[i].Len()
	}
	a := &r.group.Axes[slot]
	return a, rest % a.Len()
}

func (r *groupRow) value(slot int) any {
	a, at := r.axis(slot)
	if a == nil {
		return int64(r.element)
	}
	return a.Value(at)
}

func (r *groupRow) integer(slot int) (int64, bool) {
	a, at := r.axis(slot)
	if a == nil {
		return int64(r.element), true
	}
	if a.Values == nil {
		return a.First + int64(at), true
	}
	n, ok := a.Values[at].(int64)
	return n, ok
}

// name prints the task's name; the element of a slot is *.
func (r *groupRow) name() string {
	n := len(r.group.Axes)
	if r.group.Stream != nil {
		n++
	}
	if n == 0 {
		return r.group.Name
	}
	b := append([]byte(r.group.Name), '[')
	for slot := range n {
		if slot > 0 {
			b = append(b, ',')
		}
		a, at := r.axis(slot)
		switch {
		case a == nil && !r.known:
			b = append(b, '*')
		case a == nil:
			b = strconv.AppendUint(b, r.element, 10)
		default:
			switch v := a.Value(at).(type) {
			case int64:
				b = strconv.AppendInt(b, v, 10)
			case string:
				b = append(b, v...)
			}
		}
	}
	return string(append(b, ']'))
}
