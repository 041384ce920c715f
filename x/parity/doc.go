// Package parity holds the public API of this library against that of github.com/hibiken/asynq, whose programs must compile after
// they have changed one import path. It has tests only, in a module of its own, so that nobody else depends on the reference.
package parity
