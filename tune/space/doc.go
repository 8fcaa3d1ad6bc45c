// Package space describes what a search may try: a tree of parameters, some of which are domains to draw from.
//
// A Space is resolved to one configuration for each trial. Every draw has a stream of random numbers of its own,
// named by the seed of the experiment, the number of the sample and the path of the parameter: a parameter more
// changes no other, and the same seed gives the same values in each language and on each platform (see Stream).
//
// The package is pure: it has no clock, and no other source of random numbers.
package space
