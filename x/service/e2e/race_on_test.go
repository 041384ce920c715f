//go:build race

package e2e

// buildFlags are those of the program under test: where tests look for races, they do so in it as
// well.
var buildFlags = []string{"-race"}
