package main

// queueKey spells a key of a queue, as both libraries do (docs/WIRE.md), for the floor and for looking at what is there.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }
