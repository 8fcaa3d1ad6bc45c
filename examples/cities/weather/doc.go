// Package weather holds the functions of the example's tasks: what the members of
// an ensemble say about a city.
//
//	list ─▶ Read ─┬─ city 0 ─┬▶ Assess ─ record ─┬─▶ Rank, of those that have a record
//	              │          └▶ Series           │
//	              ├─ city 1 ─┬▶ Assess ─ record ─┤
//	              │          └▶ Series           │
//	              └─ ... as many as the list has ┘
//
// Invariants: a City has a value for each time and member. Assess gives no record
// of a city that lies above the pressure level: nothing is known of air that is not
// there.
package weather
