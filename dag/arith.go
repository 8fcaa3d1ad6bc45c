package dag

import (
	"fmt"
	"math"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// The expression library computes with Go's int and wraps around silently. A
// wrapped number of tasks or index is a wrong job, so every operation whose whole
// result may not fit is replaced, before compilation, by one of these functions. So
// is string(), which prints as Go does.
// Their names are not identifiers: no text can call them.
const (
	addFunction      = "+"
	subtractFunction = "-"
	multiplyFunction = "*"
	powerFunction    = "**"
	negateFunction   = "-x"
	absFunction      = "|x|"
	intFunction      = "int(x)"
	stringFunction   = "string(x)"
)

// checkedArithmetic makes the compiler use the functions of this file.
func checkedArithmetic() []expr.Option {
	return []expr.Option{
		expr.Patch(arithmetic{}),
		expr.Function(addFunction, binary("+", runtime.Add, add)),
		expr.Function(subtractFunction, binary("-", runtime.Subtract, subtract)),
		expr.Function(multiplyFunction, binary("*", runtime.Multiply, multiply)),
		expr.Function(powerFunction, binary("**", exponent, power)),
		expr.Function(negateFunction, unary(negate)),
		expr.Function(absFunction, unary(absolute)),
		expr.Function(intFunction, unary(whole)),
		expr.Function(stringFunction, unary(stringOf)),
	}
}

// arithmetic replaces nodes of the syntax tree.
type arithmetic struct{}

// Visit implements ast.Visitor.
func (arithmetic) Visit(node *ast.Node) {
	call := func(name string, args ...ast.Node) {
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args})
	}
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "+", "-", "*":
			call(n.Operator, n.Left, n.Right)
		case "**", "^":
			call(powerFunction, n.Left, n.Right)
		}
	case *ast.UnaryNode:
		if _, literal := n.Node.(*ast.IntegerNode); n.Operator == "-" && !literal {
			call(negateFunction, n.Node)
		}
	case *ast.BuiltinNode:
		switch {
		case n.Name == "abs" && len(n.Arguments) == 1:
			call(absFunction, n.Arguments[0])
		case n.Name == "int" && len(n.Arguments) == 1:
			call(intFunction, n.Arguments[0])
		case n.Name == "string" && len(n.Arguments) == 1:
			call(stringFunction, n.Arguments[0])
		}
	}
}

// binary is checked for two whole numbers, and the library's own for all else.
func binary(sign string, other func(a, b any) any, checked func(a, b int64) (int64, bool)) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		a, ok := integer(args[0])
		b, both := integer(args[1])
		if !ok || !both {
			return other(args[0], args[1]), nil
		}
		if n, fits := checked(a, b); fits {
			return n, nil
		}
		if sign == "**" && b < 0 { // a fraction
			return other(args[0], args[1]), nil
		}
		return nil, overflows(fmt.Sprintf("%d %s %d", a, sign, b))
	}
}

func unary(f func(any) (any, error)) func(...any) (any, error) {
	return func(args ...any) (any, error) { return f(args[0]) }
}

func overflows(what string) error {
	return mistake(what+" does not fit into a whole number of 64 bits", "use smaller numbers, or float(...) for decimals")
}

// integer returns a value that the library computes with as a whole number.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

func add(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

func subtract(a, b int64) (int64, bool) {
	d := a - b
	return d, (d < a) == (b > 0)
}

func multiply(a, b int64) (int64, bool) {
	if a == math.MinInt64 && b == -1 {
		return 0, false // the quotient below would wrap around as well
	}
	p := a * b
	return p, b == 0 || p/b == a
}

// power multiplies squares of a, so that a large exponent of 1, 0 or -1 takes no longer than another.
func power(a, b int64) (int64, bool) {
	if b < 0 {
		return 0, false
	}
	var fits bool
	p := int64(1)
	for {
		if b&1 == 1 {
			if p, fits = multiply(p, a); !fits {
				return 0, false
			}
		}
		if b >>= 1; b == 0 {
			return p, true
		}
		if a, fits = multiply(a, a); !fits {
			return 0, false
		}
	}
}

func exponent(a, b any) any { return runtime.Exponent(a, b) }

func negate(v any) (any, error) {
	if n, ok := integer(v); ok && n == math.MinInt64 {
		return nil, overflows(fmt.Sprintf("-(%d)", n))
	}
	return runtime.Negate(v), nil
}

func absolute(v any) (any, error) {
	if n, ok := integer(v); ok && n < 0 {
		return negate(v)
	}
	return builtin.Abs(v), nil
}

func whole(v any) (any, error) {
	// The largest float64 below 2^63 is 2^63 - 1024. A NaN fails both comparisons.
	if x, ok := v.(float64); ok && !(x >= math.MinInt64 && x < math.MaxInt64) {
		return nil, overflows("int(" + floatText(x) + ")")
	}
	return builtin.Int(v), nil
}

// stringOf prints a value as every other text of a job has it.
func stringOf(v any) (any, error) {
	v, err := normalise(v, 0)
	if err != nil {
		return nil, err
	}
	return valueText(v)
}
