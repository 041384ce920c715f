package show

import (
	"context"
	"errors"
	"net"
	"strings"
)

// RedisError describes an error in one clause, with its cause once, without a period. Errors of
// Redis are wrapped by several layers, each of which adds that Redis failed.
func RedisError(err error) string {
	kind, cause := redisError(err)
	return kind + cause
}

// Cause returns the cause alone, for clauses that already name the failed operation.
func Cause(err error) string {
	_, cause := redisError(err)
	return cause
}

func redisError(err error) (kind, cause string) {
	if err == nil {
		return "", ""
	}
	var op *net.OpError
	var answer interface {
		error
		RedisError()
	}
	switch {
	case errors.As(err, &op):
		return "Redis is unreachable: ", op.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "Redis is unreachable: ", "no answer in time"
	case errors.As(err, &answer):
		return "Redis returned an error: ", answer.Error()
	}
	return "", strings.TrimPrefix(err.Error(), "asynq: ")
}
