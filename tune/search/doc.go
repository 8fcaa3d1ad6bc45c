// Package search has the searchers of experiments: they suggest configurations, and are told of every result, error and
// end of each trial. Variants tries grids and draws at random; Limiter and Repeater wrap other searchers.
//
// The calls of a searcher are recorded with the events of its experiment. When the experiment is resumed a new searcher
// gets the same calls in the same order, so that one without a clock or random numbers of its own is where it was.
package search
