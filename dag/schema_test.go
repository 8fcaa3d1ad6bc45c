package dag

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestSchema(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/job.schema.json", got)
}

// TestSchemaKeys: editors offer exactly the keys that the parser knows.
func TestSchemaKeys(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties           map[string]json.RawMessage
		AdditionalProperties json.RawMessage
		Defs                 map[string]json.RawMessage `json:"$defs"`
	}
	decode := func(data json.RawMessage) (n node) {
		if err := json.Unmarshal(data, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	job := decode(raw)
	for _, c := range []struct {
		what string
		got  node
		want []string
	}{
		{"job", job, jobKeys},
		{"task", decode(job.Defs["task"]), taskKeys},
		{"input", decode(decode(job.Properties["inputs"]).AdditionalProperties), inputKeys},
		{"environment", decode(decode(job.Properties["environments"]).AdditionalProperties), environmentKeys},
	} {
		want := slices.Sorted(slices.Values(c.want))
		if got := sortedKeys(c.got.Properties); !slices.Equal(got, want) {
			t.Errorf("%s: schema has %v, the parser %v", c.what, got, want)
		}
	}
}
