package service

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/asynq-go/asynq/x/internal/reload"
)

// load reads the certificates, which are read again after they changed. It returns nil if TLS is
// disabled.
func (t *TLS) load(log *slog.Logger) (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	config, err := reload.TLS(reload.Certificate{
		CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, Protocols: []string{"h2", "http/1.1"},
	}, log)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return config, nil
}
