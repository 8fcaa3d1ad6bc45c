package dag

import "github.com/expr-lang/expr/ast"

// integers is an expression that only adds, subtracts, multiplies and takes remainders
// of whole numbers, as nearly every index is. It gives what the virtual machine
// gives, without the map of names and the boxes that this takes. Where it does not
// know (a variable that is text, an overflow, a remainder of zero) the virtual
// machine computes, or says what is wrong.
type integers struct {
	op   byte // '+', '-', '*', '%'; 'n' the number n; 'v' the variable n
	n    int64
	a, b *integers
}

// integersOf compiles a tree for a scope; nil when it has anything else in it.
func integersOf(node ast.Node, sc *scope) *integers {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return &integers{op: 'n', n: int64(n.Value)}
	case *ast.IdentifierNode:
		if slot := sc.slot(n.Value); slot >= 0 {
			return &integers{op: 'v', n: int64(slot)}
		}
	case *ast.MemberNode:
		id, ok := n.Node.(*ast.IdentifierNode)
		name, named := n.Property.(*ast.StringNode)
		if !ok || !named || id.Value != paramsIdent || sc.slot(paramsIdent) >= 0 {
			return nil
		}
		if v, ok := sc.params[name.Value].(int64); ok {
			return &integers{op: 'n', n: v}
		}
	case *ast.UnaryNode:
		if a := integersOf(n.Node, sc); a != nil && n.Operator == "-" {
			return &integers{op: '-', a: &integers{op: 'n'}, b: a}
		}
	case *ast.BinaryNode:
		if len(n.Operator) != 1 {
			return nil
		}
		switch n.Operator[0] {
		case '+', '-', '*', '%':
			x := &integers{op: n.Operator[0], a: integersOf(n.Left, sc), b: integersOf(n.Right, sc)}
			if x.a != nil && x.b != nil {
				return x
			}
		}
	}
	return nil
}

// eval computes the value for one task; false when the virtual machine must.
func (x *integers) eval(r row) (int64, bool) {
	switch x.op {
	case 'n':
		return x.n, true
	case 'v':
		return r.integer(int(x.n))
	}
	a, ok := x.a.eval(r)
	if !ok {
		return 0, false
	}
	b, ok := x.b.eval(r)
	if !ok {
		return 0, false
	}
	switch x.op {
	case '+':
		return add(a, b)
	case '-':
		return subtract(a, b)
	case '*':
		return multiply(a, b)
	}
	if b == 0 || b == -1 { // the machine knows what is to be said; and the least number over -1 has no quotient
		return 0, false
	}
	return a % b, true
}
