package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Webhook posts alerts as JSON. Any status 2xx is a success. Statuses 4xx, except 408 and 429, are
// not retried.
type Webhook struct {
	URL string

	// Secret signs the requests: the header X-Asynq-Signature is "sha256=" and the hexadecimal
	// HMAC-SHA256 of the header X-Asynq-Timestamp (Unix seconds), a period and the body. If empty,
	// there is no signature.
	Secret string

	// Client sends the requests. If nil, it is http.DefaultClient.
	Client *http.Client
}

// Name returns "webhook" and the host of the URL. The rest of the URL may be a secret.
func (w *Webhook) Name() string { return "webhook " + hostOf(w.URL) }

// Send posts an alert.
func (w *Webhook) Send(ctx context.Context, a *Alert) error {
	if err := checkSend(ctx, a); err != nil {
		return err
	}
	body, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	header := http.Header{}
	if w.Secret != "" {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(w.Secret))
		mac.Write([]byte(at + "."))
		mac.Write(body)
		header.Set("X-Asynq-Timestamp", at)
		header.Set("X-Asynq-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return post(ctx, w.Client, w.URL, body, header)
}

// Slack posts alerts to an incoming webhook of Slack, or of a compatible service such as
// Mattermost.
type Slack struct {
	URL    string
	Client *http.Client // nil: http.DefaultClient
}

// Name returns "slack" and the host of the URL, whose path is a secret.
func (s *Slack) Name() string { return "slack " + hostOf(s.URL) }

// Send posts an alert.
func (s *Slack) Send(ctx context.Context, a *Alert) error {
	if err := checkSend(ctx, a); err != nil {
		return err
	}
	// These characters begin links, mentions and entities.
	text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(a.Text())
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	return post(ctx, s.Client, s.URL, body, http.Header{})
}

// post sends a JSON body. Its errors do not contain the URL, which may be a secret.
func post(ctx context.Context, client *http.Client, to string, body []byte, header http.Header) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: the URL is invalid", ErrPermanent)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "asynq-alert")
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("alert: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return fmt.Errorf("%w: the response is %s", ErrPermanent, resp.Status)
	default:
		return fmt.Errorf("alert: the response is %s", resp.Status)
	}
}

// checkSend returns an error if an argument of Send is nil.
func checkSend(ctx context.Context, a *Alert) error {
	if ctx == nil || a == nil {
		return fmt.Errorf("%w: ctx and the alert must not be nil", ErrPermanent)
	}
	return nil
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(invalid URL)"
	}
	return u.Host
}
