package dag

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Schema returns the JSON schema (draft 2020-12) of the job file, for editors
// that complete and check YAML. It describes form; what needs the whole file,
// such as references between tasks, is checked by ParseYAML alone.
func Schema() ([]byte, error) {
	doc := object("A Cascade job: a graph of tasks.", map[string]any{
		"job":          described(text(), "Name of the job. May use ${params.NAME}."),
		"params":       mapping("Named values with their defaults, used as ${params.NAME}; changed by --param, CASCADE_PARAM_NAME or a parameter file. The default gives the type.", map[string]any{}),
		"environments": mapping("Environments: the software that tasks need, by name.", environmentSchema()),
		"inputs":       mapping("Files and URLs that tasks read, by name. Each is a dataset: a task names it under in.", inputSchema()),
		"tasks":        mapping("The tasks by name. A task with for stands for a family of tasks.", map[string]any{"$ref": "#/$defs/task"}),
		"outputs":      described(list(anyOf(reference(), strict(object("An output with the place it is copied to.", map[string]any{"from": reference(), "to": described(text(), "A file, or a folder when it ends in /. May use ${params.NAME}.")}), "from"))), "Datasets that are kept after the job, and copied to a path if one is given."),
		"keep_going":   described(boolean(), "Other branches go on when a task fails."),
		"retain":       described(boolean(), "Every dataset is kept after the job, not only outputs: run --resume and replay take them over."),
		"rebuilt":      described(anyOf(map[string]any{"enum": []any{RebuiltRerun.String(), RebuiltFail.String(), RebuiltAccept.String()}}, placeholder()), "When a lost dataset is recomputed with other bytes: rerun the tasks that have read the bytes of before (the default, for datasets up to 1 MiB), fail the job, or accept it. It is reported in any case."),
	})
	doc = strict(doc, "job", "tasks")
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "Cascade job file"
	doc["$defs"] = map[string]any{"task": taskSchema(), "name": namePattern(), "reference": referenceSchema()}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("print schema: %w", err)
	}
	return append(out, '\n'), nil
}

func taskSchema() map[string]any {
	count := anyOf(map[string]any{"type": "integer", "minimum": 0}, map[string]any{"const": "*"}, placeholder())
	refs := anyOf(reference(), list(reference()))
	task := object("A task, or a family of tasks.", map[string]any{
		"for":         mapping(`Loop variables: a range "0..9" (both inclusive), a list, ${params.LIST}, or a generator's elements "decode.field[*]" (an open one first).`, anyOf(text(), list(anyOf(text(), map[string]any{"type": "integer"})))),
		"gang":        described(wholeFrom(1), "How many tasks start together, as members that know each other's addresses; each has its ${rank}."),
		"run":         described(text(), "A registered function: FUNCTION or ENVIRONMENT:FUNCTION."),
		"command":     described(anyOf(list(scalar()), text()), "A program: a list of words, or one text for /bin/sh -c. ${in.NAME}, ${in.NAME[*]} and ${out.NAME} are paths of datasets, ${in.NAME[@]} that of a file of paths."),
		"environment": described(text(), "Environment of a command."),
		"stdin":       described(text(), "Input that the command reads as its standard input."),
		"stdout":      described(text(), "Output that the command's standard output becomes."),
		"in":          mapping("Inputs by name: a reference, a list of them, or {from, min}.", anyOf(reference(), list(reference()), strict(object("A list of which some are enough.", map[string]any{"from": refs, "min": described(wholeFrom(0), "How many datasets are enough when the others have failed; 0 means all.")}), "from"))),
		"out":         described(list(map[string]any{"$ref": "#/$defs/name"}), "Outputs: one dataset each."),
		"generates":   mapping(`Outputs published one by one while the task runs: how many, or "*" for an open count.`, anyOf(count, strict(object("A series with its buffer.", map[string]any{"count": count, "buffer": described(wholeFrom(1), "Most unconsumed elements before the task is held back.")}), "count"))),
		"with":        mapping("Parameters of the function; texts may hold ${...}.", map[string]any{}),
		"env":         mapping("Environment variables of the command; texts may hold ${...}.", scalar()),
	})
	maps.Copy(task["properties"].(map[string]any), limitsSchema())
	task = strict(task)
	task["oneOf"] = []any{map[string]any{"required": []string{"run"}}, map[string]any{"required": []string{"command"}}}
	return task
}

// limitsSchema is what bounds tasks and inputs.
func limitsSchema() map[string]any {
	amount := anyOf(map[string]any{"type": "number", "minimum": 0}, placeholder())
	size := anyOf(wholeFrom(leastPlain), map[string]any{"type": "string", "pattern": `^[0-9.]+ *([kKmMgGtTpP]?[iI]?[bB]?)$|\$\{`})
	return map[string]any{
		"resources": map[string]any{
			"type": []string{"object", "null"}, "description": "Resources that a task occupies while it runs. Other names are resources of your own.",
			"properties": map[string]any{
				"cpu":     described(amount, "Cores; 1 by default."),
				"memory":  described(size, "Private memory: 64MiB (1024), 64MB (1000), or bytes from 1048576. A task that takes more is ended and tried again with more."),
				memoryMax: described(size, "Private memory that a task may get at most when it takes more than memory; by default what a host has."),
				"gpu":     described(amount, "Devices: whole ones, or below 1 a share of one."),
				gpuMemory: described(size, "Memory that the task needs on each of its devices: 10GiB."),
			},
			"additionalProperties": amount,
		},
		"retries":    described(wholeFrom(0), "Further attempts after an error of the task itself."),
		"timeout":    described(text(), "Longest time of one attempt: 90s, 5m, 1h30m."),
		"deadline":   described(text(), "How long after the job's start its tasks should have ended: 90s, 5m, 1h30m. It raises the priority of what they need, and warns."),
		"priority":   described(anyOf(map[string]any{"type": "integer"}, placeholder()), "Higher first."),
		"keep_going": described(boolean(), "A failure of this task does not stop the job."),
	}
}

func namePattern() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": maxNameLen}
}

func referenceSchema() map[string]any {
	return map[string]any{
		"type":        "string",
		"description": "TASK, TASK.OUTPUT, TASK[INDEX, ...].OUTPUT or TASK.OUTPUT[ELEMENT]; an index is a value, ${...} or *.",
		"pattern":     `^[A-Za-z_][A-Za-z0-9_-]*(\[.*\])?(\.[A-Za-z_][A-Za-z0-9_-]*(\[.*\])?)?$`,
	}
}

func described(s map[string]any, text string) map[string]any {
	s = maps.Clone(s) // amounts of several resources begin as one
	s["description"] = text
	return s
}

func text() map[string]any        { return map[string]any{"type": "string"} }
func boolean() map[string]any     { return anyOf(map[string]any{"type": "boolean"}, placeholder()) }
func reference() map[string]any   { return map[string]any{"$ref": "#/$defs/reference"} }
func placeholder() map[string]any { return map[string]any{"type": "string", "pattern": `\$\{.*\}`} }
func scalar() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

func wholeFrom(low int) map[string]any {
	return anyOf(map[string]any{"type": "integer", "minimum": low}, placeholder())
}

func anyOf(options ...map[string]any) map[string]any { return map[string]any{"anyOf": options} }

func list(items map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": items}
}

// mapping is an object whose keys are names of the user's.
func mapping(text string, values map[string]any) map[string]any {
	return map[string]any{"type": []string{"object", "null"}, "description": text, "additionalProperties": values}
}

func object(text string, properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "description": text, "properties": properties}
}

// strict allows only the listed properties and requires some of them.
func strict(s map[string]any, required ...string) map[string]any {
	s["additionalProperties"] = false
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
