// Package hostile contains black-box tests with hostile input: nil values, extreme numbers, unusual
// names, broken connections. No call may hang or corrupt Redis, and a panic must be documented.
package hostile
