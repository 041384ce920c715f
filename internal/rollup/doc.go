// Package rollup counts the attempts of a server by queue, type and minute: their outcomes, how
// long they took, how long their tasks waited, and their errors. See "Statistics over time" in
// docs/ARCHITECTURE.md.
package rollup
