// Package fields holds the functions that the ensemble example runs as tasks:
// it reads the archive of ERA5 members, computes statistics over the members of
// a field, compares steps of time and draws maps.
//
//	archive (.npy + .json) -> Step -> [level][field][member][lat][lon]
//	                                     |
//	                    Select one level and field: [member][lat][lon]
//	                      |             |              |
//	                     Mean         Spread      Probability     [lat][lon]
//	                      |             |              |
//	                      +--CompareSteps              |
//	                      |             |              |
//	                      +----------DrawMap-----------+--------> PNG
//
// Invariants: arrays are float64, row-major, rows from north to south, columns
// from 0 degrees eastwards; functions write their result into the slice they are
// given and never change an input. NaN marks a missing value: it makes the
// statistics of its grid point NaN and is left out of means over an area.
package fields
