package reload_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/x/internal/reload"
)

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write(t, first, []byte("a"))
	synctest.Test(t, func(t *testing.T) {
		f := reload.Watch(first, "", second)
		changed := func(want bool) {
			t.Helper()
			if got := f.Changed(); got != want {
				t.Errorf("changed: %v, want %v", got, want)
			}
		}
		changed(false)
		write(t, first, []byte("ab"))
		changed(false) // not yet checked again
		time.Sleep(2 * time.Second)
		changed(true)
		time.Sleep(2 * time.Second)
		changed(false)
		write(t, second, nil)
		time.Sleep(2 * time.Second)
		changed(true)
		if err := os.Chtimes(first, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		changed(true)
		if err := os.Remove(first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		changed(true)
		time.Sleep(2 * time.Second)
		changed(false)
	})
}

// certificate writes a certificate with a name, and its key.
func certificate(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(1000 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := reload.Certificate{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "ca"), Protocols: []string{"h2"}}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if _, err := reload.TLS(c, logger); err == nil || !strings.Contains(err.Error(), "the certificate and its key") {
		t.Errorf("without files: %v", err)
	}
	certificate(t, "one", c.CertFile, c.KeyFile)
	write(t, c.ClientCAFile, []byte("nothing"))
	if _, err := reload.TLS(c, logger); err == nil || !strings.Contains(err.Error(), "no certificate found") {
		t.Errorf("without authorities: %v", err)
	}
	certificate(t, "ca", c.ClientCAFile, filepath.Join(dir, "ca-key"))
	synctest.Test(t, func(t *testing.T) {
		config, err := reload.TLS(c, logger)
		if err != nil {
			t.Fatal(err)
		}
		if len(config.NextProtos) != 1 || config.ClientAuth != tls.RequireAndVerifyClientCert || config.MinVersion != tls.VersionTLS12 {
			t.Errorf("%+v", config)
		}
		name := func() string {
			current, err := config.GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(current.Certificates[0].Certificate[0])
			if err != nil || current.ClientCAs == nil {
				t.Fatal(err, current.ClientCAs)
			}
			return leaf.Subject.CommonName
		}
		// The times of the files are real.
		later := func() {
			t.Helper()
			time.Sleep(2 * time.Second)
			if err := os.Chtimes(c.CertFile, time.Time{}, time.Now().Add(1e6*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		certificate(t, "two", c.CertFile, c.KeyFile)
		if got := name(); got != "one" {
			t.Errorf("before the check: %s", got)
		}
		later()
		if got := name(); got != "two" {
			t.Errorf("after the check: %s", got)
		}
		write(t, c.KeyFile, []byte("broken"))
		for range 3 {
			time.Sleep(2 * time.Second)
			if got := name(); got != "two" {
				t.Errorf("with an invalid file: %s", got)
			}
		}
		if n := strings.Count(log.String(), "not reloaded"); n != 1 {
			t.Errorf("logged %d times: %s", n, &log)
		}
		certificate(t, "three", c.CertFile, c.KeyFile)
		later()
		if got := name(); got != "three" {
			t.Errorf("after the repair: %s", got)
		}
	})
}
