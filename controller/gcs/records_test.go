package gcs

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

func TestBatchesOfOlderBuilds(t *testing.T) {
	for _, c := range []struct {
		what   string
		header batchHeader
		want   records.Granting
	}{
		{"counted on", batchHeader{Known: true}, records.GrantCounts},
		{"took each grant for a try", batchHeader{Known: true, Granted: true}, records.GrantTries},
		{"this one", batchHeader{Known: true, Granted: true, Granting: records.GrantBegun}, records.GrantBegun},
	} {
		h := comms.AppendRecord(nil, c.header.code)
		v := append(binary.AppendUvarint(nil, uint64(len(h))), h...)
		v = comms.Append(v, &comms.Events{First: 1, Jobs: []comms.JobEvents{{Job: comms.JobID{1}}}})
		b, err := decodeBatch(7, v)
		if err != nil || b.Granting != c.want {
			t.Errorf("a build that %s: read as %d, %v, want %d", c.what, b.Granting, err, c.want)
		}
	}
}

func TestBatchRoundTrip(t *testing.T) {
	want := records.Batch{Number: 3, Epoch: 2, At: 5, Why: "why", Reset: []comms.Range{{First: 1, Last: 2}}, Moved: []comms.Range{{First: 3, Last: 3}},
		Cancelled: []comms.Range{{First: 4, Last: 9}}, Granting: records.GrantBegun, Lost: []string{"node2"}, Unbegun: []records.Assignment{{Agent: "node3", Run: []comms.Range{{First: 3, Last: 3}}}}}
	v := encodeBatch(comms.JobID{1}, &want)
	got, err := decodeBatch(3, v)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if h, _, err := headerOf(v); err != nil || !reflect.DeepEqual(h.Tasks, []comms.Range{{First: 1, Last: 9}}) {
		t.Errorf("it is of the tasks %v, %v", h.Tasks, err)
	}
}
