// Package wire holds what every process on the same Redis agrees on: the keys, the states, and the encoding of messages.
//
// It is the only package that spells a key or knows a protobuf field number. It talks to no Redis and reads no clock.
package wire
