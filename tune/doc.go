// Package tune searches for good parameters of a training: it runs trials of a trainable with many configurations, stops
// the bad ones early, and survives the loss of any of its processes.
//
// A Tuner describes an experiment: a Trainable, a space of parameters (package space), a searcher (package search), a
// scheduler (package sched), and rules. Run runs it, Resume goes on with one that was interrupted; both return a Grid
// of results. The experiment is a folder: its specification, its journal (package journal) and its checkpoints.
//
// What decides is package core. This package carries its decisions out: trials run in workers of an Executor, which
// are goroutines of this process (Local) or actors of Cascade (Actors).
package tune
