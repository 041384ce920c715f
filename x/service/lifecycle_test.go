package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/web"
)

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

func TestConfigCheckReportsEverything(t *testing.T) {
	t.Parallel()
	minus, second := -1, -time.Second
	_, err := service.New(service.Config{
		Queues: map[string]service.QueueConfig{" ": {}, "a": {MaxRun: -1}, "b": {Weight: -1}, "f": {InOrder: true, MaxRun: 2}, "c": {MaxRetry: &minus}, "d": {Timeout: &second}, "e": {Retention: &second}, "g": {Archive: asynq.ArchiveConfig{MaxTasks: -1}},
			"h": {Partitions: &asynq.PartitionConfig{Concurrency: 1001}}, "i": {InOrder: true, Partitions: &asynq.PartitionConfig{}}, "}": {}, "\xff": {}},
		Archive:    asynq.ArchiveConfig{MaxAge: -1},
		OnlyQueues: true,
		TaskQueues: map[string]string{"": "a", "*x": "a", "t": "nowhere", "u": ""},
		Tokens: []service.Token{
			{}, {Name: "short", Secret: "short"}, {Name: "both", Secret: all, SHA256: "x"}, {Name: "hash", SHA256: "x"}, {Name: "odd", Secret: "ääääääääääääääääää"},
			{Name: "scope", Secret: all, Scopes: []service.Scope{"root"}, Queues: []string{"a*b"}},
			{Name: "twin", Secret: all, Scopes: []service.Scope{service.Read}, Queues: []string{"*"}},
			{Name: "twin", Secret: all, Scopes: []service.Scope{service.Read}, Queues: []string{"*"}, Rate: 0},
			{Name: "rate", Secret: all, Scopes: []service.Scope{service.Read}, Queues: []string{"*"}, Rate: -1},
		},
		TLS:    service.TLS{CertFile: "x", ClientCAFile: "y"},
		Limits: service.Limits{MaxBody: -1, MaxBatch: -1, MaxTake: 501, MaxWait: -1, MaxWaiting: -1, RatePerToken: -1, Burst: -1, LeaseDuration: -1, ShutdownTimeout: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"RedisConnOpt is missing", `queue " "`, `queue "}"`, `queue "\xff"`, `queue "a": max_run`, `queue "b": weight`, `queue "f": in_order and max_run 2`, `queue "c": max_retry`, `queue "d": timeout`, `queue "e": retention`,
		`queue "g": archive: max_tasks -1`, `queue "h": partitions: the Concurrency`, `queue "i": in_order orders the whole queue and excludes partitions`, "\narchive: max_age -1ns",
		`"" is not a type pattern`, `"*x" is not a type pattern`, `queue "nowhere" of "t" is not in Queues`, `queue "" of "u"`,
		"a token has no name", "shorter than 16", "both secret and SHA-256", "64 hexadecimal digits", "headers do not allow", `unknown scope "root"`, `"a*b" is not a queue pattern`,
		"duplicate name", "same secret as token", "rate and burst", "both CertFile and KeyFile",
		"MaxBody", "MaxBatch", "MaxTake is 501", "MaxWait\n", "MaxWaiting", "RatePerToken", "Burst", "LeaseDuration", "ShutdownTimeout",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	for _, cfg := range []service.Config{
		{RedisConnOpt: fakeRedis(t)},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), OnlyQueues: true},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), UI: &web.Options{RootPath: "ui/"}},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), UI: &web.Options{RootPath: "/v1", Anonymous: web.Viewer}},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), Limits: service.Limits{LeaseDuration: time.Millisecond}},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), TLS: service.TLS{CertFile: "no such file", KeyFile: "no such file"}},
		{RedisConnOpt: fakeRedis(t), Tokens: tokens(), TLS: service.TLS{ClientCAFile: "x"}},
	} {
		if _, err := service.New(cfg); err == nil {
			t.Errorf("no error: %+v", cfg)
		}
	}
}

// Shutdown ends waiting requests and does not change Redis.
func TestShutdownEndsWaits(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("r", 1, "")
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if l, _ := s.take("q", 1, "50s"); len(l) != 0 {
					t.Errorf("took %v", l)
				}
			})
		}
		group.Go(func() {
			if r := s.call("GET", "/v1/queues/r/tasks/1?wait=50s", "").want(200); r.str("task", "state") != "pending" {
				t.Errorf("response: %s", r.body)
			}
		})
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 6 })
		start := time.Now()
		s.shutdown()
		group.Wait()
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("took %v", took)
		}
		s.shutdown()
		if err := s.service.Start(); !errors.Is(err, service.ErrClosed) {
			t.Errorf("start: %v", err)
		}
		if err := s.service.Reload(service.Config{Tokens: tokens()}); !errors.Is(err, service.ErrClosed) {
			t.Errorf("reload: %v", err)
		}
	})
}

// If the service is replaced while tasks are enqueued and taken, each task is delivered exactly
// once.
func TestShutdownUnderLoadLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Limits.LeaseDuration = time.Hour }) // no lease expires on a busy machine
		const n = 300
		var mu sync.Mutex
		seen := make(map[string]int)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for {
					r, err := s.try(context.Background(), all, "POST", "/v1/take", `{"queues":["q"],"n":3,"wait":"10s"}`)
					if err != nil || r.status != http.StatusOK {
						return
					}
					tasks := r.list("tasks")
					mu.Lock()
					for i := range tasks {
						seen[r.str("tasks", i, "id")]++
					}
					mu.Unlock()
				}
			})
		}
		s.enqueue("q", n/2, "")
		tasks := make(chan struct{})
		go func() {
			defer close(tasks)
			client := asynq.NewClient(opt)
			defer client.Close()
			for i := n / 2; i < n; i++ {
				if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.Queue("q"), asynq.TaskID(fmt.Sprint(i+1))); err != nil {
					t.Error(err)
				}
			}
		}()
		proctest.Eventually(t, "some tasks to be taken", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) > n/3 })
		s.shutdown()
		group.Wait()
		<-tasks
		taken := len(seen)
		other := newEnv(t, opt, nil)
		_, ids := other.takeAll("q", n-taken)
		for _, id := range ids {
			seen[id]++
		}
		if len(seen) != n {
			t.Errorf("%d of %d tasks were delivered, %d of them before the shutdown", len(seen), n, taken)
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("task %s was delivered %d times", id, times)
			}
		}
	})
}

func TestReload(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Queues = map[string]service.QueueConfig{"q": {MaxRun: 1}} })
		var group sync.WaitGroup
		group.Go(func() {
			if l, _ := s.take("w", 1, "50s"); len(l) != 1 {
				t.Error("the request that waited during the reload got no task")
			}
		})
		proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
		s.enqueue("q", 3, "")
		l, _ := s.take("q", 3, "50s")
		if err := s.service.Reload(service.Config{}); err == nil {
			t.Error("a configuration without tokens was accepted")
		}
		if err := s.service.Reload(service.Config{Tokens: tokens(), TLS: service.TLS{CertFile: "x", KeyFile: "y"}}); err == nil {
			t.Error("TLS was enabled")
		}
		s.callAs(email, "GET", "/v1/queues", "").want(200)
		next := service.Config{Tokens: tokens(), Queues: map[string]service.QueueConfig{"q": {MaxRun: 2}}}
		next.Tokens[1].Secret = "another secret of it"
		next.Tokens[1].Secret = strings.ReplaceAll(next.Tokens[1].Secret, " ", "-")
		if err := s.service.Reload(next); err != nil {
			t.Fatal(err)
		}
		s.callAs(email, "GET", "/v1/queues", "").problem(401, "unauthorized")
		s.callAs(next.Tokens[1].Secret, "GET", "/v1/queues", "").want(200)
		if _, ids := s.take("q", 3, "50s"); len(ids) != 1 || ids[0] != "2" {
			t.Errorf("took %v, want task 2 beside task 1", ids)
		}
		s.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
		s.enqueue("w", 1, "")
		group.Wait()
	})
}

// A waiting request receives nothing after its token is removed.
func TestReloadRevokesTokenOfWaitingRequests(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.call("POST", "/v1/tasks", `{"type":"email:result","id":"x","retention":"1h"}`).want(201)
		held, _ := s.take("email:result", 1, "50s")
		var group sync.WaitGroup
		group.Go(func() {
			s.callAs(email, "POST", "/v1/take", `{"queues":["email:w"],"wait":"50s"}`).problem(401, "unauthorized")
		})
		group.Go(func() {
			s.callAs(email, "GET", "/v1/queues/email%3Aresult/tasks/x?wait=50s", "").problem(403, "forbidden")
		})
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 2 })
		next := tokens()
		next[1].Scopes = []service.Scope{service.Work}
		if err := s.service.Reload(service.Config{Tokens: next}); err != nil {
			t.Fatal(err)
		}
		s.call("POST", "/v1/leases/"+held[0]+"/done", `{"result":"secret"}`).want(200)
		proctest.Eventually(t, "the result's request to end", func() bool { return s.service.Waiting() == 1 })
		if err := s.service.Reload(service.Config{Tokens: next[:1]}); err != nil {
			t.Fatal(err)
		}
		s.enqueue("email:w", 1, "")
		group.Wait()
		r := s.call("POST", "/v1/take", `{"queues":["email:w"],"wait":"10s"}`).want(200)
		if !strings.Contains(string(r.body), `"attempt":1`) {
			t.Errorf("the undelivered task changed: %s", r.body)
		}
	})
}

// authority signs certificates and writes them to files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes name.pem and name.key.
func (a *authority) sign(name string, extra func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if extra != nil {
		extra(template)
	}
	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("server", nil)
	a.sign("client", nil)
	cfg := service.Config{RedisConnOpt: fakeRedis(t), Tokens: tokens(), TLS: service.TLS{CertFile: a.file("server.pem"), KeyFile: a.file("server.key"), ClientCAFile: a.file("ca.pem")}}
	s, err := service.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.RunOn(ctx, l) }()
	get := func(clientCert bool) (*http.Response, error) {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AddCert(a.cert)
		if clientCert {
			pair, err := tls.LoadX509KeyPair(a.file("client.pem"), a.file("client.key"))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		req, _ := http.NewRequest(http.MethodPost, "https://"+l.Addr().String()+"/v1/take", strings.NewReader(`{"queues":["q"],"wait":"20ms"}`))
		req.Header.Set("Authorization", "Bearer "+all)
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err == nil {
			res.Body.Close()
		}
		return res, err
	}
	proctest.Eventually(t, "the service to answer", func() bool {
		res, err := get(true)
		return err == nil && res.StatusCode == http.StatusOK && res.ProtoMajor == 2
	})
	if _, err := get(false); err == nil {
		t.Error("a client without a certificate was accepted")
	}
	before, _ := get(true)
	a.sign("server", func(c *x509.Certificate) { c.Subject.CommonName = "renewed" })
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	after, err := get(true)
	if err != nil || after.TLS.PeerCertificates[0].Subject.CommonName != "renewed" || before.TLS.PeerCertificates[0].Subject.CommonName != "server" {
		t.Errorf("the certificate was not renewed: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
