package reload

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// Certificate names the PEM files of a TLS server.
type Certificate struct {
	CertFile, KeyFile string

	// ClientCAFile has the certificate authorities of client certificates. If empty, clients need
	// no certificate.
	ClientCAFile string

	// Protocols are the protocols of ALPN, such as "h2".
	Protocols []string
}

// TLS returns a configuration whose certificates are read again after their files changed: new
// connections use them. If the new files are invalid, the previous ones remain in use, and the
// error is logged once per change.
func TLS(c Certificate, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.Default()
	}
	files := Watch(c.CertFile, c.KeyFile, c.ClientCAFile)
	first, err := c.load()
	if err != nil {
		return nil, err
	}
	var current atomic.Pointer[tls.Config]
	current.Store(first)
	config := first.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if !files.Changed() {
			return current.Load(), nil
		}
		next, err := c.load()
		if err != nil {
			log.Error("TLS certificates not reloaded; the previous ones remain in use", "error", err)
			return current.Load(), nil
		}
		current.Store(next)
		log.Info("TLS certificates reloaded", "file", c.CertFile)
		return next, nil
	}
	return config, nil
}

func (c *Certificate) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificate and its key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: c.Protocols}
	if c.ClientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the client certificate authorities: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate found in %s", c.ClientCAFile)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
