// Package interop lets this library and github.com/hibiken/asynq work on the same Redis, in one process and in many. It has tests
// only, in a module of its own, so that nobody else depends on the reference.
//
// The scenarios are written once, against the interfaces of package side. Packages ours and theirs fulfil them, with sources that
// differ by one import path.
package interop
