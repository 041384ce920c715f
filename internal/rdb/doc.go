// Package rdb is the broker: one Go method over one Lua script for each transition of a task.
//
// It starts no goroutines. Every method that takes many tasks splits them into script calls of a bounded size and sends these
// in one pipeline. What a script refuses is told by a declared code (codes.go); what Redis or the network refuses is an error
// of the call. All methods may be repeated after an error with the same arguments: nothing is done or counted twice.
package rdb
