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

// hint explains, once, how to fix a connection error: how to set another address if no server
// answers, and how to switch TLS if only one side uses it. A Redis without TLS takes a TLS
// handshake for an incomplete command and waits; a Redis with TLS closes an unencrypted connection.
func (a *app) hint(err error) {
	if a.hinted {
		return
	}
	var header tls.RecordHeaderError
	var network net.Error
	silent := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	encrypted, known := a.encrypted()
	switch {
	case dialError(err) != nil && a.config != nil:
		a.printErrf("The address is %s. To change it, use --uri, ASYNQ_URI or a context (asynq context ls).", a.config.AddressFrom())
	case !known:
		return
	case encrypted && (silent || closed || errors.As(err, &header)):
		a.printErrf("The connection uses TLS. If this Redis does not, omit --tls and the other TLS options, or use redis:// instead of rediss://.")
	case !encrypted && closed:
		a.printErrf("The connection does not use TLS. If this Redis requires it, use --tls, or rediss:// instead of redis://.")
	default:
		return
	}
	a.hinted = true
}

// encrypted reports whether connections use TLS, if known.
func (a *app) encrypted() (yes, known bool) {
	switch c := a.shared.(type) {
	case *redis.Client:
		return c.Options().TLSConfig != nil, true
	case *redis.ClusterClient:
		return c.Options().TLSConfig != nil, true
	}
	return false, false
}
