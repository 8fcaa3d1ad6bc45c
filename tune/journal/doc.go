// Package journal keeps the record of an experiment: a file of lines of JSON, one for each event with the actions that
// followed from it. What Append returns for is on the disk.
//
// A line that a crash has cut off at the end is dropped when the journal is opened: nothing was done because of it.
// Any other damage is an error that names the line.
package journal
