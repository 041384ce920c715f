// Package interop runs this library and github.com/hibiken/asynq on the same Redis, in one process
// and in many. It has only tests, and is in the module of tests so that the library does not depend
// on the reference.
//
// The scenarios use the interfaces of package side. Packages ours and theirs implement them, with
// sources that differ in one import path.
package interop
