// Package guarantee contains black-box tests of what the library promises. Each numbered guarantee
// of docs/GUARANTEES.md has at least one test that bears its number.
package guarantee
