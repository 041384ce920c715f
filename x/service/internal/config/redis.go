package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
)

// redisSettings holds the connection settings of the file.
type redisSettings struct {
	uri, username, password, namespace string
	tls                                *tls.Config
}

// dropPlainURI removes the URI from the literal secrets if it contains no password.
func dropPlainURI(literal []*yaml.Node, uri *yaml.Node) []*yaml.Node {
	if uri == nil || strings.Contains(uri.Value, "@") || strings.Contains(uri.Value, "password") {
		return literal
	}
	return slices.DeleteFunc(literal, func(n *yaml.Node) bool { return n == uri })
}

// connOpt returns the connection option, or the key that is invalid. Errors do not contain the
// password.
func (r *redisSettings) connOpt() (opt asynq.RedisConnOpt, key string, err error) {
	opt, err = asynq.ParseRedisURI(r.uri)
	if err != nil {
		return nil, "uri", err
	}
	switch o := opt.(type) {
	case asynq.RedisClientOpt:
		override(&o.Username, r.username)
		override(&o.Password, r.password)
		mergeTLS(&o.TLSConfig, r.tls)
		opt = o
	case asynq.RedisFailoverClientOpt:
		override(&o.Username, r.username)
		override(&o.Password, r.password)
		mergeTLS(&o.TLSConfig, r.tls)
		opt = o
	case asynq.RedisClusterClientOpt:
		override(&o.Username, r.username)
		override(&o.Password, r.password)
		mergeTLS(&o.TLSConfig, r.tls)
		opt = o
	default:
		return nil, "uri", fmt.Errorf("unsupported connection type %T", opt)
	}
	if r.namespace != "" {
		if strings.ContainsAny(r.namespace, "{}") {
			return nil, "namespace", errors.New("must not contain { or }")
		}
		opt = asynq.WithNamespace(opt, r.namespace)
	}
	return opt, "", nil
}

func override(to *string, value string) {
	if value != "" {
		*to = value
	}
}

// mergeTLS adds certificates to the TLS configuration of the URI, which holds the server name.
func mergeTLS(to **tls.Config, from *tls.Config) {
	if from == nil {
		return
	}
	if *to == nil {
		*to = from
		return
	}
	merged := (*to).Clone()
	merged.RootCAs, merged.Certificates = from.RootCAs, from.Certificates
	override(&merged.ServerName, from.ServerName)
	*to = merged
}

func (d *decoder) redisTLS(n *yaml.Node) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var ca, cert, key string
	nodes := d.mapping(n, fields{"ca": path{&ca}, "cert": path{&cert}, "key": path{&key}, "server_name": &c.ServerName})
	if ca != "" {
		c.RootCAs = d.authorities(nodes["ca"], ca)
	}
	switch {
	case (cert == "") != (key == ""):
		d.errorf(n, "TLS client authentication needs both cert and key")
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			d.errorf(nodes["cert"], "cannot load the certificate: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// authorities reads a PEM file of certificates.
func (d *decoder) authorities(n *yaml.Node, name string) *x509.CertPool {
	text, err := os.ReadFile(name)
	if err != nil {
		d.errorf(n, "cannot read the file: %v", err)
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		d.errorf(n, "%s contains no PEM certificate", name)
	}
	return pool
}
