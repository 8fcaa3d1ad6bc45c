package dag

import (
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// quoteName is the function that makes a text one word for a shell. It is the whole of a placeholder: what
// is put behind or before a quoted word is written outside of the placeholder.
const quoteName = "quote"

// quoteOf returns x when an expression is quote(x).
func quoteOf(src string) (inner string, ok bool) {
	rest, ok := strings.CutPrefix(src, quoteName)
	rest = strings.TrimSpace(rest)
	if !ok || !strings.HasPrefix(rest, "(") || !strings.HasSuffix(rest, ")") {
		return "", false
	}
	depth, text := 0, byte(0)
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case text != 0 && c == '\\' && text != '`':
			i++
		case text != 0:
			if c == text {
				text = 0
			}
		case c == '"' || c == '\'' || c == '`':
			text = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 && i < len(rest)-1 {
				return "", false // such as quote(a) + quote(b)
			}
		}
	}
	inner = strings.TrimSpace(rest[1 : len(rest)-1])
	return inner, inner != "" && depth == 0 && text == 0
}

// compileQuote makes e the quoted text of another expression.
func (ps programs) compileQuote(e *expression, inner string, sc *scope) (*expression, error) {
	x, err := ps.compile(inner, sc)
	if err != nil {
		return nil, err
	}
	if x.constant() {
		text, err := x.text(sc, noRow{})
		e.konst = shellQuote(text)
		return e, err
	}
	e.quoted, e.vars = x, x.vars
	if x.slot >= 0 {
		e.vars = []int{x.slot}
	}
	return e, nil
}

// shellQuote writes a text so that a POSIX shell reads it as one word.
func shellQuote(text string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_@%+=:,./-", c)
	}
	if text != "" && !strings.ContainsFunc(text, func(c rune) bool { return !plain(c) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Unquoted is a place where a parameter that may be any text enters the text of a shell as it is.
type Unquoted struct {
	Task, Param string
	Expr        string // between ${ and }
}

// Unquoted lists the places of commands where the text of a parameter is not quoted.
func (g *Graph) Unquoted() (all []Unquoted) {
	texts := map[string]bool{}
	for i := range g.Params {
		switch g.Params[i].Value.(type) {
		case bool, int64, float64: // another value has this type too
		default:
			texts[g.Params[i].Name] = true
		}
	}
	for i := range g.Groups {
		words := g.Groups[i].Run.Command
		if len(words) != 3 || words[0].String() != "/bin/sh" || words[1].String() != "-c" {
			continue
		}
		for _, p := range words[2] {
			if _, quoted := quoteOf(p.Text); p.Kind != ArgExpr || quoted {
				continue
			}
			tree, err := parser.Parse(p.Text)
			if err != nil {
				continue
			}
			v := &paramNames{}
			ast.Walk(&tree.Node, v)
			for _, name := range v.names {
				if texts[name] {
					all = append(all, Unquoted{g.Groups[i].Name, name, p.Text})
					break
				}
			}
		}
	}
	return all
}

// paramNames collects the parameters that an expression reads.
type paramNames struct{ names []string }

// Visit implements ast.Visitor.
func (v *paramNames) Visit(node *ast.Node) {
	if m, ok := (*node).(*ast.MemberNode); ok {
		of, isName := m.Node.(*ast.IdentifierNode)
		if name, ok := m.Property.(*ast.StringNode); ok && isName && of.Value == paramsIdent {
			v.names = append(v.names, name.Value)
		}
	}
}
