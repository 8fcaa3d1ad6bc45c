package gcs

import (
	"encoding/binary"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// A key is the table's letter and the fields in big-endian order, so that keys
// sort as their fields do and a job's records of one table are one range:
//
//	m name                          meta: schema version, shard map
//	s agent                         how far the agent's events are durable in this shard
//	j job                           row of a job
//	q job                           the request that made the job, without its graph
//	g job chunk(4)                  graph, of builds before schema 2
//	h hash chunk(4)                 graph, once for all jobs of the shard that have it
//	b job number(8)                 batch of events
//	t job task(4)                   row of a task
//	d job task(4) output(4) elem(8) row of a dataset
//	r hash job                      package that a job needs
//	x job at(8) agent               loss of an agent that had tasks of a job
//	a name                          agent            (shard 0)
//	p signature                     profile          (shard 0)
//	l host host                     link             (shard 0)
//	k id(8)                         token            (shard 0)
//	n end(8) serial                 certificate      (shard 0)
//	e key                           environment      (shard 0; reserved)
//	u name                          function         (shard 0; reserved)
//	c job actor                     actor            (reserved)
type table byte

const (
	tableMeta         table = 'm'
	tableSeen         table = 's'
	tableJobs         table = 'j'
	tableRequests     table = 'q'
	tableOldGraphs    table = 'g'
	tableGraphs       table = 'h'
	tableBatches      table = 'b'
	tableTasks        table = 't'
	tableDatasets     table = 'd'
	tablePackages     table = 'r'
	tableLosses       table = 'x'
	tableAgents       table = 'a'
	tableProfiles     table = 'p'
	tableLinks        table = 'l'
	tableTokens       table = 'k'
	tableMembers      table = 'n'
	tableEnvironments table = 'e'
	tableFunctions    table = 'u'
	tableActors       table = 'c'
)

// jobTables are those whose keys begin with a job. The row itself is last: while
// it is there the job is, so a deletion that was cut short is seen and repeated.
var jobTables = [...]table{tableBatches, tableTasks, tableDatasets, tableLosses, tableActors, tableRequests, tableJobs}

const jobKeySize = 1 + len(comms.JobID{})

func nameKey(t table, name string) []byte { return append([]byte{byte(t)}, name...) }

func jobKey(t table, job comms.JobID) []byte {
	return append(append(make([]byte, 0, jobKeySize+16), byte(t)), job[:]...)
}

// graphName is the name under which a job's graph is stored: its hash, or what
// stands for it in a row without one.
func graphName(row *records.Job) comms.Hash {
	if row.GraphHash == "" {
		return comms.Hash(row.ID[:])
	}
	return row.GraphHash
}

// graphKey begins the keys of a graph's chunks. Names are of different lengths,
// and none may begin another.
func graphKey(name comms.Hash) []byte {
	return append(append(make([]byte, 0, len(name)+6), byte(tableGraphs), byte(len(name))), name...)
}

func chunkKey(name comms.Hash, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(graphKey(name), chunk)
}

func batchKey(job comms.JobID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(jobKey(tableBatches, job), number)
}

func taskKey(job comms.JobID, task uint32) []byte {
	return binary.BigEndian.AppendUint32(jobKey(tableTasks, job), task)
}

func datasetKey(job comms.JobID, r comms.DatasetRef) []byte {
	k := binary.BigEndian.AppendUint32(jobKey(tableDatasets, job), uint32(r.Task))
	k = binary.BigEndian.AppendUint32(k, r.Output)
	return binary.BigEndian.AppendUint64(k, r.Element)
}

func lossKey(job comms.JobID, l *records.Loss) []byte {
	return append(binary.BigEndian.AppendUint64(jobKey(tableLosses, job), uint64(l.At)), l.Agent...)
}

// keyJob returns the job that a key of one of the jobTables belongs to.
func keyJob(key []byte) (comms.JobID, error) {
	if len(key) < jobKeySize {
		return comms.JobID{}, fmt.Errorf("key %x: too short to hold a job", key)
	}
	return comms.JobID(key[1:jobKeySize]), nil
}
