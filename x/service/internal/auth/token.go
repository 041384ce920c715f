// Package auth authenticates bearer tokens and enforces their scopes, queues and rates.
package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Scope is a permission of a token.
type Scope string

// The scopes. None includes another.
const (
	Enqueue Scope = "enqueue" // enqueue tasks
	Work    Scope = "work"    // take and settle tasks
	Read    Scope = "read"    // read tasks, queues and metrics; wait for results
	Manage  Scope = "manage"  // delete, cancel, run, archive and reschedule tasks; pause and resume queues
)

var scopes = []Scope{Enqueue, Work, Read, Manage}

// MinSecret is the minimum length of a secret in bytes.
const MinSecret = 16

// Token is a bearer token. Clients send it as "Authorization: Bearer SECRET".
type Token struct {
	// Name identifies the token in logs. It must be unique.
	Name string

	// Secret is what the client sends, at least 16 bytes of printable ASCII without spaces. Set
	// SHA256, its SHA-256 in hexadecimal, instead to keep the secret out of the configuration.
	// Exactly one of them must be set.
	Secret string
	SHA256 string

	// Scopes lists what the token may do.
	Scopes []Scope

	// Queues lists the queues that the token has access to: names, or prefixes followed by "*". "*"
	// means all queues.
	Queues []string

	// Rate is the maximum number of requests per second, and Burst the number of requests that may
	// be made at once. Zero means the default in Limits.
	Rate  float64
	Burst int
}

// Check validates the token. The error lists everything that is invalid.
func (t *Token) Check() error {
	var errs []error
	if strings.TrimSpace(t.Name) == "" {
		errs = append(errs, errors.New("a token has no name: name it for the logs"))
	}
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("token %q: %s", t.Name, fmt.Sprintf(format, args...)))
	}
	switch sum, err := hex.DecodeString(t.SHA256); {
	case t.Secret != "" && t.SHA256 != "":
		wrong("both secret and SHA-256 are set: remove one")
	case t.Secret == "" && t.SHA256 == "":
		wrong("the secret is missing")
	case t.SHA256 != "" && (err != nil || len(sum) != sha256.Size):
		wrong("the SHA-256 must have 64 hexadecimal digits")
	case t.Secret != "" && len(t.Secret) < MinSecret:
		wrong("the secret is shorter than %d bytes: create one with openssl rand -hex 24", MinSecret)
	case strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		wrong("the secret has characters that HTTP headers do not allow: use printable ASCII without spaces")
	}
	if len(t.Scopes) == 0 {
		wrong("scopes are missing: add at least one of %q", scopes)
	}
	for _, s := range t.Scopes {
		if !slices.Contains(scopes, s) {
			wrong("unknown scope %q: valid scopes are %q", s, scopes)
		}
	}
	if len(t.Queues) == 0 {
		wrong(`queues are missing: list queue names, or "*" for all queues`)
	}
	for _, q := range t.Queues {
		if q == "" || strings.Contains(strings.TrimSuffix(q, "*"), "*") {
			wrong(`%q is not a queue pattern: use a name, or a prefix followed by "*"`, q)
		}
	}
	if t.Rate < 0 || t.Burst < 0 {
		wrong("rate and burst must not be negative")
	}
	return errors.Join(errs...)
}

func (t *Token) sum() [sha256.Size]byte {
	if t.Secret != "" {
		return sha256.Sum256([]byte(t.Secret))
	}
	var sum [sha256.Size]byte
	_, _ = hex.Decode(sum[:], []byte(t.SHA256)) // validated by Check
	return sum
}

// Holder is an authenticated token. It is safe for concurrent use.
type Holder struct {
	Name   string
	sum    [sha256.Size]byte
	scopes []Scope
	queues []string
	limit  *rate.Limiter // nil if unlimited
}

// May reports whether the token has a scope.
func (h *Holder) May(scope Scope) bool { return slices.Contains(h.scopes, scope) }

// HasAccess reports whether the token has access to a queue.
func (h *Holder) HasAccess(queue string) bool {
	for _, pattern := range h.queues {
		if Matches(pattern, queue) {
			return true
		}
	}
	return false
}

// HasFullAccess reports whether the token has access to all queues.
func (h *Holder) HasFullAccess() bool { return slices.Contains(h.queues, "*") }

// Admit counts a request. If the rate limit is exceeded, it returns how long to wait before the
// next one.
func (h *Holder) Admit() (wait time.Duration) {
	if h.limit == nil {
		return 0
	}
	r := h.limit.Reserve()
	if !r.OK() {
		return time.Second // the burst is zero
	}
	if wait = r.Delay(); wait > 0 {
		r.Cancel()
	}
	return wait
}

// Matches reports whether a name equals a pattern, or begins with its prefix if the pattern ends in
// "*".
func Matches(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}
