package dag

import (
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Spellings are the numbers within a parameter that the file writes in another way than
// [Graph] prints them: 3.10, 1e7. Each stands under its place: "" for the parameter itself, [2] for a
// member of a list, ["name"] for one of a mapping, one place behind the other. Where a text is wanted
// the number is as it was written: it may be a version or a tag.
type Spellings map[string]string

// note keeps the spelling of a number that would be printed in another way.
func (s Spellings) note(place string, v any, written string) {
	switch v.(type) {
	case int64, float64:
		if text, err := valueText(v); s != nil && err == nil && text != written {
			s[place] = written
		}
	}
}

// item is the place of a member of a list at a place; "" where nothing is noted.
func (s Spellings) item(place string, i int) string {
	if s == nil {
		return ""
	}
	return place + itemPlace(i)
}

// member is item for a mapping.
func (s Spellings) member(place, key string) string {
	if s == nil {
		return ""
	}
	return place + memberPlace(key)
}

func memberPlace(key string) string { return "[" + strconv.Quote(key) + "]" }

func itemPlace[T int | int64](i T) string { return "[" + strconv.FormatInt(int64(i), 10) + "]" }

// choice is an expression that only chooses a part of a parameter: params.NAME, or a member of it.
type choice struct {
	param string
	steps []choiceStep
	text  bool // it is string(...) of that
}

type choiceStep struct {
	place string
	slot  int // of the variable that gives the place; -1 when place is it
}

// choiceOf finds what an expression chooses; nil when it computes.
func choiceOf(node ast.Node, sc *scope) *choice {
	c := &choice{}
	if b, ok := node.(*ast.BuiltinNode); ok && b.Name == "string" && len(b.Arguments) == 1 {
		node, c.text = b.Arguments[0], true
	}
	if !c.walk(node, sc) {
		return nil
	}
	return c
}

func (c *choice) walk(node ast.Node, sc *scope) bool {
	m, ok := node.(*ast.MemberNode)
	if !ok {
		return false
	}
	if id, ok := m.Node.(*ast.IdentifierNode); ok {
		name, named := m.Property.(*ast.StringNode)
		if !named || id.Value != paramsIdent || sc.slot(paramsIdent) >= 0 {
			return false
		}
		c.param = name.Value
		return true
	}
	if !c.walk(m.Node, sc) {
		return false
	}
	step := choiceStep{slot: -1}
	switch p := m.Property.(type) {
	case *ast.StringNode:
		step.place = memberPlace(p.Value)
	case *ast.IntegerNode:
		step.place = itemPlace(p.Value)
	case *ast.IdentifierNode:
		step.slot = sc.slot(p.Value)
	}
	c.steps = append(c.steps, step)
	return step.place != "" || step.slot >= 0
}

// spelling returns how the file writes the number that is chosen for one task.
func (c *choice) spelling(sc *scope, r row) (string, bool) {
	if c == nil {
		return "", false
	}
	var place strings.Builder
	for _, s := range c.steps {
		switch {
		case s.slot < 0:
			place.WriteString(s.place)
		default:
			if n, ok := r.integer(s.slot); ok {
				place.WriteString(itemPlace(n))
			} else if key, ok := r.value(s.slot).(string); ok {
				place.WriteString(memberPlace(key))
			}
		}
	}
	text, ok := sc.spelled[c.param][place.String()]
	return text, ok
}
