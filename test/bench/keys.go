package main

// queueKey returns a key of a queue according to docs/WIRE.md, for the floor and for inspection.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }
