package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// hint says, once, what may be behind an error of the connection that does not tell it: one side speaks TLS, and the other does not. A
// Redis without TLS takes its greeting for a command that has not come to its end, and waits; one with TLS hangs up on a command.
func (a *app) hint(err error) {
	if a.hinted {
		return
	}
	var header tls.RecordHeaderError
	var network net.Error
	silent := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	encrypted, known := a.encrypted()
	switch {
	case !known:
		return
	case encrypted && (silent || hungUp || errors.As(err, &header)):
		a.say("The connection is made with TLS. If Redis has none at this address, leave --tls and its like out, or write redis:// for rediss://.")
	case !encrypted && hungUp:
		a.say("The connection is made without TLS. If Redis wants it at this address, say --tls, or write rediss:// for redis://.")
	default:
		return
	}
	a.hinted = true
}

// encrypted reports whether connections are made with TLS, if that is known.
func (a *app) encrypted() (yes, known bool) {
	switch c := a.shared.(type) {
	case *redis.Client:
		return c.Options().TLSConfig != nil, true
	case *redis.ClusterClient:
		return c.Options().TLSConfig != nil, true
	}
	return false, false
}
