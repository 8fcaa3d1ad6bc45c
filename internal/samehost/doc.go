// Package samehost tells whether two processes see the same files: whether they run on
// one host, in one root folder and in one network.
//
// Each agent has a custom resource whose name stands for its host (Resource), in an amount
// that tasks never use up. A task that wants some of it runs on the host whose files a client
// has seen.
package samehost
