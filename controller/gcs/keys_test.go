package gcs

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

func TestKeys(t *testing.T) {
	job := comms.JobID{0xaa, 15: 0xbb}
	const id = "aa0000000000000000000000000000bb"
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"meta", nameKey(tableMeta, "schema"), "6d736368656d61"},
		{"job", jobKey(tableJobs, job), "6a" + id},
		{"request", jobKey(tableRequests, job), "71" + id},
		{"graph", chunkKey("hash", 258), "68046861736800000102"},
		{"batch", batchKey(job, 1), "62" + id + "0000000000000001"},
		{"task", taskKey(job, 7), "74" + id + "00000007"},
		{"dataset", datasetKey(job, comms.DatasetRef{Task: 1, Output: 2, Element: 3}), "64" + id + "00000001" + "00000002" + "0000000000000003"},
		{"agent", nameKey(tableAgents, "n1"), "616e31"},
		{"seen", nameKey(tableSeen, "n1"), "736e31"},
	} {
		if got := fmt.Sprintf("%x", c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if j, err := keyJob(taskKey(job, 1)); err != nil || j != job {
		t.Errorf("keyJob: %v %v", j, err)
	}
	if _, err := keyJob([]byte{1, 2}); err == nil {
		t.Error("a short key has no job")
	}
}

func TestTablesDiffer(t *testing.T) {
	all := []table{tableMeta, tableSeen, tableJobs, tableRequests, tableOldGraphs, tableGraphs, tableBatches, tableTasks, tableDatasets,
		tablePackages, tableAgents, tableProfiles, tableLinks, tableEnvironments, tableFunctions, tableActors}
	slices.Sort(all)
	if len(slices.Compact(all)) != 16 {
		t.Error("two tables have one letter")
	}
	if jobTables[len(jobTables)-1] != tableJobs {
		t.Error("the row must be deleted last")
	}
}

func TestDatasetKeysSortAsNames(t *testing.T) {
	ref := rapid.Custom(func(t *rapid.T) comms.DatasetRef {
		return comms.DatasetRef{Task: dag.TaskIndex(rapid.Uint32().Draw(t, "task")), Output: rapid.Uint32().Draw(t, "output"), Element: rapid.Uint64().Draw(t, "element")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ref.Draw(t, "a"), ref.Draw(t, "b")
		want := 0
		for _, d := range [][2]uint64{{uint64(a.Task), uint64(b.Task)}, {uint64(a.Output), uint64(b.Output)}, {a.Element, b.Element}} {
			if want == 0 && d[0] != d[1] {
				want = 1
				if d[0] < d[1] {
					want = -1
				}
			}
		}
		if got := bytes.Compare(datasetKey(comms.JobID{}, a), datasetKey(comms.JobID{}, b)); got != want {
			t.Fatalf("%v %v: %d, want %d", a, b, got, want)
		}
	})
}

func TestShardMap(t *testing.T) {
	m := newShardMap(3)
	if err := m.validate(); err != nil {
		t.Fatal(err)
	}
	hit := make([]int, 3)
	for n := range uint64(3000) {
		hit[m.shard(jobID(n))]++
	}
	for s, n := range hit {
		if n < 800 {
			t.Errorf("shard %d has %d of 3000 jobs", s, n)
		}
	}
	for _, bad := range []ShardMap{{}, {Shards: 1}, {Shards: 1, Bucket: slices.Repeat([]uint16{1}, buckets)}} {
		if bad.validate() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	b := records.Batch{Agent: "a", First: 3, Reset: []comms.Range{{First: 1, Last: math.MaxUint32}}, Events: finished(1, 2)}
	f.Add(encodeBatch(jobID(1), &b))
	f.Add([]byte{0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, v []byte) {
		b, err := decodeBatch(1, v)
		if err != nil {
			return
		}
		if again, err := decodeBatch(1, encodeBatch(jobID(1), &b)); err != nil || len(again.Events) != len(b.Events) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

func FuzzDecodeRecords(f *testing.F) {
	for _, v := range []any{&records.Job{Name: "n", Labels: []string{"a=b"}}, &records.Seen{UpTo: 4}, &records.Dataset{Agent: "a"}, &ShardMap{Version: 1}} {
		b, err := encodeRecord(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(comms.AppendRecord(nil, (&jobRow{Name: "n", Labels: []string{"a=b"}, Groups: []comms.GroupCounts{{Group: "g"}}, Error: &comms.TaskError{Message: "m"}}).code))
	f.Add(comms.AppendRecord(nil, (&seenRow{UpTo: 4}).code))
	f.Add(comms.AppendRecord(nil, (&datasetRow{Agent: "a"}).code))
	f.Fuzz(func(t *testing.T, b []byte) {
		// No input may panic; what decodes must encode.
		if v, err := decodeRecord[records.Job](b); err == nil {
			if _, err := encodeRecord(&v); err != nil {
				t.Fatal(err)
			}
		}
		if v, err := decodeRecord[ShardMap](b); err == nil && v.validate() == nil {
			v.shard(jobID(1))
		}
		if v, err := decodeJob(b); err == nil {
			again, err := decodeJob(comms.AppendRecord(nil, (*jobRow)(&v).code))
			if err != nil || again.ID != v.ID || again.Stored != v.Stored {
				t.Fatalf("%+v, %v, want %+v", again, err, v)
			}
		}
		_, _ = decodeDataset(b)
		_, _ = decodeSeen(b)
	})
}
