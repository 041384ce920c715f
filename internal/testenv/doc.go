// Package testenv is the environment of black-box tests of the library: an empty Redis, a client,
// servers that shut down when the test ends, and helpers that wait for events and check Redis.
package testenv
