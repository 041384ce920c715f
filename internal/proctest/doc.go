// Package proctest starts the processes that tests and benchmarks of all modules need, such as
// redis-server, and waits for conditions. It uses only the standard library, so that modules do not
// get further dependencies.
package proctest
