package hosted

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// newClient returns the HTTP client of all endpoints. It ignores proxy settings of the environment,
// because a proxy would bypass the firewall.
func newClient(h *HTTP) (*http.Client, error) {
	wall := &firewall{allowed: h.AllowNetworks}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: h.resolver, ControlContext: wall.control}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return wall.dial(ctx, dialer, network, address)
		},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // against decompression bombs
	}
	if h.CAFile != "" {
		pem, err := os.ReadFile(h.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no PEM certificate", h.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}, nil
}

// endpoint posts tasks of one type.
type endpoint struct {
	Endpoint

	target *url.URL
	host   string // of the target, normalized
	port   string
	keys   [][]byte
	client http.Client
	log    *slog.Logger
	now    func() time.Time
}

func newEndpoint(e Endpoint, h *HTTP, client *http.Client, log *slog.Logger) *endpoint {
	p := &endpoint{Endpoint: e, client: *client, log: log, now: time.Now}
	p.target, _ = url.Parse(e.URL) // validated by Check, like the secrets
	for _, secret := range e.Secrets {
		key, _ := signingKey(secret)
		p.keys = append(p.keys, key)
	}
	p.Timeout = or(p.Timeout, 30*time.Second)
	p.MaxResponse = or(p.MaxResponse, 64<<10)
	p.MaxRetryAfter = or(p.MaxRetryAfter, time.Hour)
	p.host, p.port = hostPort(p.target)
	allowed := *h
	if allowed.AllowHosts == nil {
		allowed.AllowHosts = []string{net.JoinHostPort(p.target.Hostname(), p.port)}
	}
	p.client.CheckRedirect = func(next *http.Request, via []*http.Request) error { return p.mayFollow(&allowed, next, via) }
	return p
}

// errRedirect is the error of a redirect that is not followed.
var errRedirect = errors.New("redirect not followed")

// mayFollow returns an error if a redirect must not be followed. Codes other than 307 and 308 would
// turn the request into a GET without the payload.
func (p *endpoint) mayFollow(allowed *HTTP, next *http.Request, via []*http.Request) error {
	code := next.Response.StatusCode
	switch {
	case code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect:
		return fmt.Errorf("%w: status %d drops the body", errRedirect, code)
	case len(via) > p.MaxRedirects:
		return fmt.Errorf("%w: the limit is %d", errRedirect, p.MaxRedirects)
	case next.URL.Scheme != "https" && (next.URL.Scheme != "http" || p.target.Scheme == "https"):
		return fmt.Errorf("%w: it changes the scheme %s", errRedirect, p.target.Scheme)
	case next.URL.User != nil:
		return fmt.Errorf("%w: the URL contains a user", errRedirect)
	case !allowed.AllowsURL(next.URL):
		return fmt.Errorf("%w: the host %q is not allowed", errRedirect, excerpt([]byte(next.URL.Host), 100))
	}
	next.Header.Del("Referer")
	if host, port := hostPort(next.URL); host != p.host || port != p.port {
		for name := range p.Headers { // headers may contain secrets of the endpoint
			if name = http.CanonicalHeaderKey(name); name != "Content-Type" && name != "User-Agent" {
				next.Header.Del(name)
			}
		}
	}
	return nil
}

// ProcessTask posts the task and maps the response to an outcome.
func (p *endpoint) ProcessTask(ctx context.Context, t *asynq.Task) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("no response within %v", p.Timeout))
	defer cancel()
	req, err := p.request(ctx, t)
	if err != nil {
		return archive("cannot create the request: %w", err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return p.requestError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return p.responseError(resp, nil) // the body is the connection itself, which has no deadline
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(p.MaxResponse)))
	if err != nil && resp.StatusCode/100 == 2 {
		// The response is incomplete, so the outcome is unknown.
		return p.requestError(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		storeResult(ctx, t, body, p.log)
		return nil
	}
	return p.responseError(resp, body)
}

func (p *endpoint) request(ctx context.Context, t *asynq.Task) (*http.Request, error) {
	body := t.Payload()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	a := attemptOf(ctx)
	id, timestamp := escape(a.id), strconv.FormatInt(p.now().Unix(), 10)
	set := req.Header.Set
	set("User-Agent", "asynq-service")
	switch {
	case json.Valid(body):
		set("Content-Type", "application/json")
	case utf8.Valid(body):
		set("Content-Type", "text/plain; charset=utf-8")
	default:
		set("Content-Type", "application/octet-stream")
	}
	for name, value := range p.Headers {
		set(name, value)
	}
	set("Idempotency-Key", id)
	set("Asynq-Task-Type", escape(t.Type()))
	set("Asynq-Queue", escape(a.queue))
	set("Asynq-Attempt", strconv.Itoa(a.number))
	set("Asynq-Max-Retry", strconv.Itoa(a.maxRetry))
	set("Webhook-Id", id)
	set("Webhook-Timestamp", timestamp)
	if len(p.keys) > 0 {
		var signatures []string
		for _, key := range p.keys {
			signatures = append(signatures, signature(key, id, timestamp, body))
		}
		set("Webhook-Signature", strings.Join(signatures, " "))
	}
	return req, nil
}

// requestError returns the error of a request without a response.
func (p *endpoint) requestError(ctx context.Context, err error) error {
	var target *url.Error
	if errors.As(err, &target) {
		err = target.Err // without the URL, which may hold a secret
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("post to %s: %w", p.target.Host, context.Cause(ctx))
	case errors.Is(err, errRedirect), errors.Is(err, errAddressBlocked):
		return archive("post to %s: %w", p.target.Host, err)
	default:
		return fmt.Errorf("post to %s: %w", p.target.Host, err)
	}
}

// responseError returns the error of a response that is not 2xx.
func (p *endpoint) responseError(resp *http.Response, body []byte) error {
	code := resp.StatusCode
	err := fmt.Errorf("%s responded with status %d", p.target.Host, code)
	if text := excerpt(body[:min(len(body), 500)], 500); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		wait, ok := p.retryAfter(resp.Header.Get("Retry-After"))
		if ok && p.SnoozeWhenBusy {
			return fmt.Errorf("%w: %w", err, asynq.Snooze(wait))
		}
		if ok {
			return fmt.Errorf("%w: %w", err, asynq.RetryAfter(wait))
		}
		return err
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code >= 500:
		return err
	case code/100 == 4 && p.RetryClientErrors:
		return err
	default:
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
}

// minRetryAfter is the minimum of Retry-After: with zero, a snoozed task would run in an endless
// loop.
const minRetryAfter = time.Second

// retryAfter parses a Retry-After header, which holds seconds or a time.
func (p *endpoint) retryAfter(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return p.MaxRetryAfter, true
		}
		return min(max(time.Duration(seconds)*time.Second, minRetryAfter), p.MaxRetryAfter), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(p.now()), minRetryAfter), p.MaxRetryAfter), true
}
