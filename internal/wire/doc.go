// Package wire defines the format that all processes on the same Redis share: the keys, the task
// states and the encoding of messages. It is compatible with github.com/hibiken/asynq; keys and
// fields that only this library uses are marked as extensions, and have a TTL.
//
//	keys.go      the keys of a namespace and of a queue
//	keytype.go   the Redis type, the state and the expiry of each key of a queue
//	state.go     the states and the fields of a task hash
//	message.go   the messages in protobuf: TaskMessage, ServerInfo, WorkerInfo, SchedulerEntry and its events
//	codec.go     their encoding, with fields.go, reader.go and writer.go
//	cancel.go    the messages of the cancellation channel
//	poller.go    the polls of a worker of a Receiver, in text; an extension
//	schedule.go  what a scheduler entry creates its tasks from, in JSON; an extension
//
// It is the only package that contains a key or a protobuf field number. Others take the name of a
// queue out of keys that they scan: it is between ":{" and "}:". The package uses neither Redis nor
// the clock.
package wire
