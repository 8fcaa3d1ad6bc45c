// Package samehost tells whether two processes see the same files: whether they run on
// one host, in one root folder and in one network.
//
// Each agent has a resource of this name, without end. A task that wants some of it
// runs where the files are that a client has seen.
package samehost
