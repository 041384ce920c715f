package conn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{t: t, dir: t.TempDir()}
	ca.cert, ca.key = ca.issue("ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test CA"},
	})
	return ca
}

// issue creates a certificate and writes it and its key to files with the given name.
func (ca *authority) issue(name string, tmpl *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	tmpl.SerialNumber = big.NewInt(time.Now().UnixNano())
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	ca.write(name+".pem", "CERTIFICATE", der)
	ca.write(name+".key", "EC PRIVATE KEY", keyDER)
	return cert, key
}

func (ca *authority) write(name, kind string, der []byte) {
	ca.t.Helper()
	if err := os.WriteFile(ca.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
}

func (ca *authority) path(name string) string { return filepath.Join(ca.dir, name) }

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.issue("server", &x509.Certificate{DNSNames: []string{"redis.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	ca.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(ca.path("server.pem"), ca.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	server, err := miniredis.RunTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client := []string{"--tls-cert", ca.path("client.pem"), "--tls-key", ca.path("client.key")}
	trust := []string{"--tls-ca", ca.path("ca.pem")}
	name := []string{"--tls-server", "redis.test"}
	tests := map[string]struct {
		uri  string
		args [][]string
		ok   bool
	}{
		"all flags":                 {uri: "127.0.0.1:", args: [][]string{client, trust, name}, ok: true},
		"with a URI":                {uri: "rediss://127.0.0.1:", args: [][]string{client, trust, name}, ok: true},
		"insecure":                  {uri: "127.0.0.1:", args: [][]string{client, {"--tls", "--insecure"}}, ok: true},
		"without the CA":            {uri: "127.0.0.1:", args: [][]string{client, name}},
		"without the name":          {uri: "127.0.0.1:", args: [][]string{client, trust}},
		"without the certificate":   {uri: "127.0.0.1:", args: [][]string{trust, name}},
		"without TLS":               {uri: "127.0.0.1:"},
		"insecure alone is not TLS": {uri: "127.0.0.1:", args: [][]string{{"--insecure"}}},
		"insecure with a URI":       {uri: "rediss://127.0.0.1:", args: [][]string{client, {"--insecure"}}, ok: true},
		"insecure in the URI":       {uri: "rediss://127.0.0.1:PORT?insecure_skip_verify=true", args: [][]string{client}, ok: true},
		"URI without the CA":        {uri: "rediss://127.0.0.1:", args: [][]string{client}},
	}
	for what, tt := range tests {
		uri := tt.uri
		if i := len(uri) - 1; uri[i] == ':' {
			uri += port
		} else {
			uri = "rediss://127.0.0.1:" + port + "?insecure_skip_verify=true"
		}
		args := []string{"-u", uri, "--timeout", "1s"}
		for _, a := range tt.args {
			args = append(args, a...)
		}
		c := optOf(t, "", nil, args...).MakeRedisClient().(*redis.Client)
		err := c.Ping(t.Context()).Err()
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v; want it to work: %v", what, err, tt.ok)
		}
		_ = c.Close()
	}
}
