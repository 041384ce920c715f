// Package proctest starts the processes that tests and benchmarks of all modules need, above all redis-servers. It knows nothing of the
// library, and uses the standard library only, so that it adds nothing to what a module depends on.
package proctest
