package dag

import (
	"fmt"
	"strings"
)

// parseArg reads one word of a command line.
func parseArg(s string) (Arg, error) {
	if s == "" {
		return Arg{{Kind: ArgText}}, nil
	}
	segs, err := segments(s)
	if err != nil {
		return nil, err
	}
	arg := make(Arg, len(segs))
	for i, sg := range segs {
		if !sg.expr {
			arg[i] = ArgPart{Kind: ArgText, Text: sg.text}
			continue
		}
		if arg[i], err = parseArgExpr(sg.text); err != nil {
			return nil, err
		}
	}
	return arg, nil
}

// parseArgExpr reads what stands between ${ and } in a command.
func parseArgExpr(s string) (ArgPart, error) {
	if name, ok := strings.CutPrefix(s, "in."); ok {
		if list, ok := strings.CutSuffix(name, "[*]"); ok && isName(list) {
			return ArgPart{Kind: ArgInputs, Text: list}, nil
		}
		if list, ok := strings.CutSuffix(name, "[@]"); ok && isName(list) {
			return ArgPart{Kind: ArgInputsFile, Text: list}, nil
		}
		if isName(name) {
			return ArgPart{Kind: ArgInput, Text: name}, nil
		}
		return ArgPart{}, mistake(fmt.Sprintf("${%s} does not name an input", clip(s)), "write ${in.NAME}; of a list ${in.NAME[*]} for its paths, or ${in.NAME[@]} for a file of them")
	}
	if name, ok := strings.CutPrefix(s, "out."); ok {
		if isName(name) {
			return ArgPart{Kind: ArgOutput, Text: name}, nil
		}
		return ArgPart{}, mistake(fmt.Sprintf("${%s} does not name an output", clip(s)), "write ${out.NAME}")
	}
	return ArgPart{Kind: ArgExpr, Text: s}, nil
}

func isName(s string) bool {
	name, rest := takeName(s)
	return name != "" && rest == ""
}

// String prints the word as a job file has it.
func (a Arg) String() string { return a.text(escapeText) }

// plain is String with literal text as the command has it, not as the job file writes it.
func (a Arg) plain() string { return a.text(func(s string) string { return s }) }

func (a Arg) text(literal func(string) string) string {
	var b strings.Builder
	for _, p := range a {
		switch p.Kind {
		case ArgText:
			b.WriteString(literal(p.Text))
		case ArgInput:
			b.WriteString("${in." + p.Text + "}")
		case ArgInputs:
			b.WriteString("${in." + p.Text + "[*]}")
		case ArgInputsFile:
			b.WriteString("${in." + p.Text + "[@]}")
		case ArgOutput:
			b.WriteString("${out." + p.Text + "}")
		case ArgExpr:
			b.WriteString("${" + p.Text + "}")
		}
	}
	return b.String()
}

// The limits of the system for a program's arguments, in paths of the shortest that the store
// gives: 128 KiB for one argument, as the text of a shell is, and 2 MiB for all.
const (
	maxTextPaths = 3900
	maxWordPaths = 50_000
)

// checkLists refuses lists that are too long for a command line. count is how many paths each input of
// the task has at least.
func checkLists(words []Arg, count map[string]uint64) error {
	var all uint64
	longest := ""
	for _, word := range words {
		var joined uint64
		for _, p := range word {
			if p.Kind != ArgInputs {
				continue
			}
			joined, all = joined+count[p.Text], all+count[p.Text]
			if longest == "" || count[p.Text] > count[longest] {
				longest = p.Text
			}
		}
		if len(word) > 1 && joined > maxTextPaths {
			return mistake(fmt.Sprintf("the command has %d paths of lists in one text, which is too long for the system from %d on", joined, maxTextPaths+1),
				"${in."+longest+"[@]} is a file with one path a line, such as: xargs cat < ${in."+longest+"[@]}")
		}
	}
	if all > maxWordPaths {
		return mistake(fmt.Sprintf("the command has %d paths of lists as words, which are too many for the system from %d on", all, maxWordPaths+1),
			"${in."+longest+"[@]} is a file with one path a line")
	}
	return nil
}
