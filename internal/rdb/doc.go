// Package rdb is the broker: one Go method and one Lua script for each transition of a task.
//
// It starts no goroutines. Methods that take many tasks split them into script calls of a bounded
// size and send these in one pipeline. A script reports a result for each task as a script.Code;
// what Redis or the network rejects is an error of the call. After an error, every method can be
// repeated with the same arguments: nothing happens or is counted twice.
package rdb
