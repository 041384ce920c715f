// Package parity compares this library with github.com/hibiken/asynq: its API, its behavior and its
// metrics. Programs written for the reference must compile after one import path changes. The
// package has only tests, and is in the module of tests so that the library does not depend on the
// reference.
package parity
