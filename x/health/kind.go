package health

import "github.com/asynq-go/asynq"

// errorKind returns what errors with texts like this one have in common.
func errorKind(text string) string { return asynq.ErrorKind(text) }
