// Package journal keeps the record of an experiment: a file of lines of JSON, one for each event with the actions that
// followed from it. All that was added is on the
// disk when Sync has returned.
//
// A line that a crash has cut off at the end is dropped when the journal is opened: nothing was done because of it.
// Any other damage is an error that names the line.
package journal
