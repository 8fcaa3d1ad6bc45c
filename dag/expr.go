package dag

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

const (
	maxExprLen  = 1 << 10  // characters of one expression
	maxTextLen  = 1 << 16  // bytes of a text after its placeholders are replaced
	exprBudget  = 10_000   // memory budget of one evaluation, in the evaluator's units
	paramsIdent = "params" // name under which expressions see the job's parameters
)

// Expressions are evaluated on behalf of whoever wrote a job file, so only
// operations whose cost is bounded by their text are allowed: no loops, no
// closures, no ranges, no regular expressions.
func allowedBuiltin(name string) bool {
	switch name {
	case "abs", "ceil", "float", "floor", "int", "len", "lower", "max", "min", "round", "string", "trim", "upper":
		return true
	}
	return false
}

// scope says which names an expression may use and gives their values.
type scope struct {
	vars    []string // loop variables, the stream's first
	params  map[string]any
	spelled map[string]Spellings // of parameters that have such
	broken  map[string]bool      // parameters whose values are mistakes that were reported
}

// errReported is of what uses something that was reported as a mistake; it is no mistake of its own.
var errReported = errors.New("its parameter is a mistake")

// breaks notes that a parameter has no value.
func (s *scope) breaks(name string) {
	if s.broken == nil {
		s.broken = map[string]bool{}
	}
	s.broken[name] = true
}

// param adds a parameter.
func (s *scope) param(p *Param) {
	s.params[p.Name] = p.Value
	if len(p.Spelled) > 0 {
		if s.spelled == nil {
			s.spelled = map[string]Spellings{}
		}
		s.spelled[p.Name] = p.Spelled
	}
}

func (s *scope) slot(name string) int { return slices.Index(s.vars, name) }

// row gives the values of a scope's variables for one task.
type row interface {
	value(slot int) any
	integer(slot int) (int64, bool)
}

// program is a compiled expression without its scope, shared by equal texts.
type program struct {
	idents []string // free names, sorted
	code   *vm.Program
	tree   ast.Node // as it was written
	err    error
}

// programs caches compiled expressions by text while a graph is being built.
type programs map[string]*program

// expression is one ${...} bound to a scope. The common forms (a variable, a
// variable plus or minus a constant) are evaluated without the virtual machine.
type expression struct {
	src    string
	slot   int // variable of the fast form; -1: none
	add    int64
	simple bool // the value is the variable itself, of any type
	vars   []int
	code   *vm.Program // nil when konst or the fast form holds
	ints   *integers   // beside code: nil unless all of it is arithmetic of whole numbers
	konst  any
	choice *choice     // nil unless it chooses of a parameter that has spellings
	quoted *expression // of quote(x): x
}

// constant tells whether the value is the same for each task.
func (e *expression) constant() bool { return e.slot < 0 && e.code == nil && e.quoted == nil }

// uses tells whether the expression depends on a variable.
func (e *expression) uses(slot int) bool { return e.slot == slot || slices.Contains(e.vars, slot) }

// compile binds the text between ${ and } to a scope.
func (ps programs) compile(src string, sc *scope) (*expression, error) {
	src = strings.TrimSpace(src)
	e := &expression{src: src, slot: -1}
	if slot, add, ok := affine(src, sc); ok {
		e.slot, e.add, e.simple = slot, add, add == 0
		return e, nil
	}
	if inner, ok := quoteOf(src); ok {
		return ps.compileQuote(e, inner, sc)
	}
	p := ps[src]
	if p == nil {
		p = compileProgram(src)
		ps[src] = p
	}
	if p.err != nil {
		return nil, p.err
	}
	for _, id := range p.idents {
		if slot := sc.slot(id); slot >= 0 {
			e.vars = append(e.vars, slot)
		} else if id != paramsIdent {
			return nil, unknownName(id, sc)
		}
	}
	if err := checkParams(p.code, sc); err != nil {
		return nil, err
	}
	if c := choiceOf(p.tree, sc); c != nil && sc.spelled[c.param] != nil {
		e.choice = c
	}
	if len(e.vars) > 0 {
		e.code, e.ints = p.code, integersOf(p.tree, sc)
		return e, nil
	}
	v, err := run(p.code, map[string]any{paramsIdent: sc.params})
	if err != nil {
		return nil, fmt.Errorf("${%s}: %w", clip(src), err)
	}
	e.konst = v
	if text, ok := e.choice.spelling(sc, noRow{}); ok && e.choice.text {
		e.konst = text
	}
	return e, nil
}

// affine recognises "x", "x+1" and "x - 1".
func affine(src string, sc *scope) (slot int, add int64, ok bool) {
	n := 0
	for n < len(src) && isNameByte(src[n]) && src[n] != '-' {
		n++
	}
	if slot = sc.slot(src[:n]); slot < 0 {
		return 0, 0, false
	}
	rest := strings.TrimSpace(src[n:])
	if rest == "" {
		return slot, 0, true
	}
	if len(rest) < 2 || (rest[0] != '+' && rest[0] != '-') {
		return 0, 0, false
	}
	digits := strings.TrimSpace(rest[1:])
	c, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	if rest[0] == '-' {
		return slot, -int64(c), true
	}
	return slot, int64(c), true
}

// compileProgram parses, checks and compiles an expression.
func compileProgram(src string) (p *program) {
	p = &program{}
	defer func() { // the compiler folds constants, and may fail while it does so
		if r := recover(); r != nil {
			p.err = fmt.Errorf("${%s}: cannot be compiled", clip(src))
		}
	}()
	if src == "" {
		p.err = mistake("empty expression ${}", "write a name, such as ${params.x}, or $${ for a literal ${")
		return p
	}
	if len(src) > maxExprLen {
		p.err = fmt.Errorf("expression of %d characters: at most %d are allowed", len(src), maxExprLen)
		return p
	}
	tree, err := parser.Parse(src)
	if err != nil {
		p.err = badSyntax(src, err)
		return p
	}
	w := &walker{}
	ast.Walk(&tree.Node, w)
	if w.refused != "" {
		p.err = mistake(fmt.Sprintf("${%s}: %s", clip(src), w.refused),
			"expressions have numbers, text, + - * / % **, comparison, a ? b : c, and int, float, string, len, min, max, abs, round, floor, ceil, upper, lower, trim, and quote around the whole")
		return p
	}
	slices.Sort(w.idents)
	p.idents = slices.Compact(w.idents)
	code, err := expr.Compile(src, checkedArithmetic()...)
	if err != nil {
		p.err = badSyntax(src, err)
		return p
	}
	p.code, p.tree = code, tree.Node
	return p
}

func badSyntax(src string, err error) error {
	return mistake(fmt.Sprintf("${%s}: %s", clip(src), exprMessage(err)), "check operators, brackets and quotes, such as ${params.n + 1}")
}

// walker collects names and refuses what is not bounded by its text.
type walker struct {
	idents  []string
	refused string
}

// Visit implements ast.Visitor.
func (w *walker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		w.idents = append(w.idents, n.Value)
	case *ast.BuiltinNode:
		if !allowedBuiltin(n.Name) {
			w.refused = "function " + n.Name + " is not available"
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "..", "matches", "contains", "startsWith", "endsWith", "|":
			w.refused = "operator " + n.Operator + " is not available"
		}
	case *ast.CallNode:
		w.refused = "only built-in functions can be called"
		if name, ok := n.Callee.(*ast.IdentifierNode); ok && name.Value == quoteName {
			w.refused = "quote(x) is the whole of a placeholder, and takes one value"
		}
	case *ast.PredicateNode, *ast.PointerNode, *ast.VariableDeclaratorNode, *ast.SequenceNode, *ast.BytesNode:
		w.refused = "only arithmetic and text are available"
	}
}

// checkParams reports params.x where the job has no parameter x.
func checkParams(code *vm.Program, sc *scope) error {
	c := &paramChecker{sc: sc}
	node := code.Node()
	ast.Walk(&node, c)
	return c.err
}

type paramChecker struct {
	sc  *scope
	err error
}

// Visit implements ast.Visitor.
func (c *paramChecker) Visit(node *ast.Node) {
	m, ok := (*node).(*ast.MemberNode)
	if !ok || c.err != nil {
		return
	}
	id, ok := m.Node.(*ast.IdentifierNode)
	if !ok || id.Value != paramsIdent {
		return
	}
	name, ok := m.Property.(*ast.StringNode)
	if !ok {
		return
	}
	if c.sc.broken[name.Value] {
		c.err = errReported
	} else if _, known := c.sc.params[name.Value]; !known {
		c.err = mistake(fmt.Sprintf("unknown parameter %q", name.Value), nearest(name.Value, keysOf(c.sc.params), "declare it under params"))
	}
}

func unknownName(id string, sc *scope) error {
	if _, ok := sc.params[id]; ok {
		return mistake(fmt.Sprintf("unknown name %q", id), fmt.Sprintf("write params.%s", id))
	}
	return mistake(fmt.Sprintf("unknown name %q", id),
		nearest(id, append([]string{paramsIdent}, sc.vars...), "known are params.NAME and the variables of for; write $${ for a literal ${"))
}

// exprMessage shortens the expression library's message to its first line.
func exprMessage(err error) string {
	var fe *file.Error
	if errors.As(err, &fe) {
		return fe.Message
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// run evaluates and normalises to the kinds of Param.Value.
func run(code *vm.Program, env map[string]any) (any, error) {
	m := vm.VM{MemoryBudget: exprBudget}
	v, err := m.Run(code, env)
	var own *hinted
	if errors.As(err, &own) {
		return nil, own
	}
	if err != nil {
		return nil, mistake(plainWords(exprMessage(err)), "the values do not fit the operation; int(...), float(...) and string(...) convert")
	}
	return normalise(v, 0)
}

// typeWords are the library's names of types, and those of its functions that are named alike.
var typeWords = regexp.MustCompile(`\[\]interface \{\}|map\[string\]interface \{\}|<nil>|\b(u?int[0-9]*|float64|string|bool)\b\(?`)

// plainWords says in the words of job files what the expression library says in those of Go.
func plainWords(message string) string {
	switch {
	case strings.HasPrefix(message, "reflect: call of"):
		return "null is no value to compute with"
	case strings.HasPrefix(message, "reflect.Value.MapIndex"):
		return "the keys of a mapping are text"
	case message == "runtime error: integer divide by zero":
		return "division by zero"
	}
	if is, found := strings.CutPrefix(message, "interface conversion: interface {} is "); found {
		is, want, _ := strings.Cut(is, ", not ")
		if is == "nil" {
			is = "<nil>"
		}
		message = "it is " + is + " where " + want + " is wanted"
	}
	return typeWords.ReplaceAllStringFunc(message, func(word string) string {
		switch {
		case strings.HasSuffix(word, "("):
			return word
		case word == "[]interface {}":
			return "a list"
		case word == "map[string]interface {}":
			return "a mapping"
		case word == "<nil>":
			return "null"
		case word == "float64":
			return "a number"
		case word == "string":
			return "a text"
		case word == "bool":
			return "a truth value"
		}
		return "a whole number"
	})
}

// eval gives the expression's value for one task.
func (e *expression) eval(sc *scope, r row) (any, error) {
	if e.constant() {
		return e.konst, nil
	}
	if e.quoted != nil {
		text, err := e.quoted.text(sc, r)
		return shellQuote(text), err
	}
	if e.slot >= 0 {
		if e.simple {
			return r.value(e.slot), nil
		}
		n, ok := r.integer(e.slot)
		if !ok {
			return nil, mistake(fmt.Sprintf("${%s}: %s is the text %q, not a number", clip(e.src), sc.vars[e.slot], r.value(e.slot)), "loop over numbers, or write int("+sc.vars[e.slot]+")")
		}
		sum, fits := add(n, e.add)
		if !fits {
			return nil, fmt.Errorf("${%s}: %w", clip(e.src), overflows(fmt.Sprintf("%d + %d", n, e.add)))
		}
		return sum, nil
	}
	if e.ints != nil {
		if n, ok := e.ints.eval(r); ok {
			return n, nil
		}
	}
	if e.choice != nil && e.choice.text {
		if text, ok := e.choice.spelling(sc, r); ok {
			return text, nil
		}
	}
	env := make(map[string]any, len(e.vars)+1)
	env[paramsIdent] = sc.params
	for _, s := range e.vars {
		env[sc.vars[s]] = r.value(s)
	}
	v, err := run(e.code, env)
	if err != nil {
		return nil, fmt.Errorf("${%s}: %w", clip(e.src), err)
	}
	return v, nil
}

// text gives the expression's value for one task as a text: a number of a parameter as its file writes it.
func (e *expression) text(sc *scope, r row) (string, error) {
	v, err := e.eval(sc, r)
	if err != nil {
		return "", err
	}
	if s, ok := e.choice.spelling(sc, r); ok {
		return s, nil
	}
	s, err := valueText(v)
	if err != nil {
		return "", fmt.Errorf("${%s}: %w", clip(e.src), err)
	}
	return s, nil
}

// normalise brings a value to the kinds of Param.Value, within a depth.
func normalise(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("value nested deeper than %d", maxDepth)
	}
	switch x := v.(type) {
	case nil, bool, int64, string:
		return x, nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the value %s is not a finite number", floatText(x))
		}
		return x, nil
	case int:
		return int64(x), nil
	case int32:
		return int64(x), nil
	case uint32:
		return int64(x), nil
	case float32:
		return normalise(float64(x), depth)
	case []string:
		out := make([]any, len(x))
		for i, s := range x {
			out[i] = s
		}
		return out, nil
	case []any, map[string]any:
		return mapped(x, func(e any) (any, error) { return normalise(e, depth+1) })
	}
	return nil, fmt.Errorf("a value of type %T cannot be part of a job", v)
}

// valueText is how a value looks inside a text or a name.
func valueText(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case float64:
		return floatText(x), nil
	case bool:
		return strconv.FormatBool(x), nil
	case nil:
		return "", mistake("the value is null and cannot be part of a text", "give the parameter a value")
	}
	return "", mistake(fmt.Sprintf("a %s cannot be part of a text", kindOf(v)), "choose one of its values: ${params.LIST[0]}, ${params.MAP.KEY}")
}

// floatText prints a float in decimals, a whole one with all its digits and no point. As in
// JSON it has an exponent from 1e21 on and below 1e-6.
func floatText(x float64) string {
	switch size := math.Abs(x); {
	case size != 0 && size < 1e-6, size >= 1e21:
		return strconv.FormatFloat(x, 'e', -1, 64)
	case x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// formatFloat prints a float so that it reads back as a float.
func formatFloat(x float64) string {
	s := floatText(x)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// kindOf names the kind of a value for messages.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "truth value"
	case int64:
		return "whole number"
	case float64:
		return "number"
	case string:
		return "text"
	case []any:
		return "list"
	case map[string]any:
		return "mapping"
	}
	return fmt.Sprintf("%T", v)
}
