package wfformat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// document is a file in any of the versions: 1.4 has workflow.tasks, the later
// ones have workflow.specification and workflow.execution.
type document struct {
	Name          string `json:"name"`
	SchemaVersion string `json:"schemaVersion"`
	Workflow      *struct {
		Tasks         []task14 `json:"tasks"`
		Specification *struct {
			Tasks []specTask `json:"tasks"`
			Files []specFile `json:"files"`
		} `json:"specification"`
		Execution *struct {
			Tasks []execTask `json:"tasks"`
			ran
		} `json:"execution"`
		ran // 1.4
	} `json:"workflow"`
}

// ran is how long all of it took, and where. Of machines some writers say little, or
// in forms of their own: what is not understood is left out.
type ran struct {
	Makespan *float64        `json:"makespanInSeconds"`
	Machines json.RawMessage `json:"machines"`
}

// machines returns the hosts whose cores are told; nil when those of one are not.
func (r *ran) machines() (out []Machine) {
	var all []struct {
		Name string `json:"nodeName"`
		CPU  struct {
			Cores float64 `json:"coreCount"`
		} `json:"cpu"`
	}
	if json.Unmarshal(r.Machines, &all) != nil {
		return nil
	}
	for _, m := range all {
		if !(m.CPU.Cores > 0 && m.CPU.Cores <= 1e6) {
			return nil
		}
		out = append(out, Machine{m.Name, m.CPU.Cores})
	}
	return out
}

// measured is what a recording says of one run. A pointer is nil when the number
// is missing or null: Pegasus leaves out cores and memory, others write null.
type measured struct {
	Seconds *float64 `json:"runtimeInSeconds"`
	AvgCPU  *float64 `json:"avgCPU"` // per cent of a core
	Memory  *float64 `json:"memoryInBytes"`
}

type task14 struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Parents  []string `json:"parents"`
	Children []string `json:"children"`
	Cores    *float64 `json:"cores"`
	Files    []struct {
		Link string   `json:"link"`
		Path string   `json:"path"`
		Name string   `json:"name"`
		Size *float64 `json:"sizeInBytes"`
	} `json:"files"`
	measured
}

type specTask struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Parents  []string `json:"parents"`
	Children []string `json:"children"`
	Inputs   []string `json:"inputFiles"`
	Outputs  []string `json:"outputFiles"`
}

type specFile struct {
	ID   string   `json:"id"`
	Size *float64 `json:"sizeInBytes"`
}

type execTask struct {
	ID    string   `json:"id"`
	Cores *float64 `json:"coreCount"`
	measured
}

// older versions that the format's own tool brings to a later one.
var older = [...]string{"1.0", "1.1", "1.2", "1.3"}

func decode(file string, b []byte) (*document, error) {
	var d document
	if text := bytes.TrimSpace(b); len(text) > 0 && text[0] != '{' && text[0] != '[' {
		return nil, fmt.Errorf("%s: it is %s, and no WfFormat file, which is a JSON object: wfcommons makes WfFormat of what other systems have recorded", file, cmp.Or(Foreign(b), "another text"))
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", place(file, b, err), plain(err))
	}
	switch v := d.SchemaVersion; {
	case v == "1.4" || v == "1.5" || v == "1.6":
	case v == "":
		return nil, fmt.Errorf("%s: schemaVersion is missing: this is no WfFormat file", file)
	case slices.Contains(older[:], v):
		return nil, fmt.Errorf("%s: schemaVersion %s is not read; bring the file to 1.5 with tools/wfcommons-migrate-instance.py of WfFormat", file, v)
	default:
		return nil, fmt.Errorf("%s: schemaVersion %q is not read; 1.4, 1.5 and 1.6 are", file, v)
	}
	if d.Workflow == nil {
		return nil, fmt.Errorf("%s: workflow is missing", file)
	}
	return &d, nil
}

// Foreign says which description or recording of a workflow a file is, of other systems or in WfFormat;
// "" of what is none that is known.
func Foreign(b []byte) string {
	text := bytes.TrimSpace(b)
	switch {
	case bytes.HasPrefix(text, []byte("<")) && bytes.Contains(text, []byte("<adag")):
		return "a DAX file of Pegasus (XML)"
	case bytes.HasPrefix(text, []byte("<")):
		return "an XML file"
	case nextflow.Match(text):
		return "a script of Nextflow"
	case bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"schemaVersion"`)) && bytes.Contains(text, []byte(`"workflow"`)):
		return "a recording in WfFormat"
	}
	return ""
}

// nextflow matches the beginning of a process or workflow.
var nextflow = regexp.MustCompile(`(?m)^\s*(process\s+\w+|workflow(\s+\w+)?)\s*\{|^nextflow\.`)

// plain says of a value of the wrong kind where it is in the format's words.
func plain(err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		a := "a"
		if typed.Value == "array" || typed.Value == "object" {
			a = "an"
		}
		return fmt.Errorf("%s cannot be %s %s", cmp.Or(strings.TrimPrefix(typed.Field, "."), "the file"), a, typed.Value)
	}
	return err
}

// place returns the file with line and column of what the decoder stopped at.
func place(file string, b []byte, err error) string {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	at := int64(len(b))
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &typed):
		at = typed.Offset
	}
	before := b[:min(max(at-1, 0), int64(len(b)))]
	return fmt.Sprintf("%s:%d:%d", file, bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}
