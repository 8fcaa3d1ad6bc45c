// Package core is the controller as a pure state machine.
package core
