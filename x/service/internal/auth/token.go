// Package auth says who may do what: bearer tokens, their scopes, and the queues and rates that they are good for.
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

// Scope is something that a token may do.
type Scope string

// The scopes. None includes another.
const (
	Enqueue Scope = "enqueue" // put tasks into queues
	Work    Scope = "work"    // take tasks, and settle them
	Read    Scope = "read"    // look at tasks, queues and metrics, and wait for results
	Manage  Scope = "manage"  // delete, cancel, run, archive and reschedule tasks; pause and resume queues
)

var scopes = []Scope{Enqueue, Work, Read, Manage}

// MinSecret is how many bytes a secret has at least.
const MinSecret = 16

// Token is a bearer token: what a client sends as "Authorization: Bearer SECRET".
type Token struct {
	// Name of the token in logs. Each token has its own.
	Name string

	// Secret that the client sends, of at least 16 bytes; or else SHA256, its SHA-256 in hexadecimal, so that the configuration
	// does not hold the secret. Only one of them is set.
	Secret string
	SHA256 string

	// Scopes of the token.
	Scopes []Scope

	// Queues that the token is good for: names, or beginnings of names that end in "*". "*" is all.
	Queues []string

	// Rate is how many requests a second the token may make, and Burst how many at once. Zero: as Limits say.
	Rate  float64
	Burst int
}

// Check tells all that is wrong with a token by itself.
func (t *Token) Check() error {
	var errs []error
	if strings.TrimSpace(t.Name) == "" {
		errs = append(errs, errors.New("a token has no name: give it one, for the logs"))
	}
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("token %q: %s", t.Name, fmt.Sprintf(format, args...)))
	}
	switch sum, err := hex.DecodeString(t.SHA256); {
	case t.Secret != "" && t.SHA256 != "":
		wrong("it has both a secret and a SHA-256: keep one of them")
	case t.Secret == "" && t.SHA256 == "":
		wrong("it has no secret")
	case t.SHA256 != "" && (err != nil || len(sum) != sha256.Size):
		wrong("its SHA-256 is not 64 hexadecimal digits")
	case t.Secret != "" && len(t.Secret) < MinSecret:
		wrong("its secret is shorter than %d bytes: make one with openssl rand -hex 24", MinSecret)
	case strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		wrong("its secret has characters that no header takes: use printable ASCII without spaces")
	}
	if len(t.Scopes) == 0 {
		wrong("it has no scopes: give it some of %q", scopes)
	}
	for _, s := range t.Scopes {
		if !slices.Contains(scopes, s) {
			wrong("there is no scope %q: the scopes are %q", s, scopes)
		}
	}
	if len(t.Queues) == 0 {
		wrong(`it is good for no queue: name them, or "*" for all`)
	}
	for _, q := range t.Queues {
		if q == "" || strings.Contains(strings.TrimSuffix(q, "*"), "*") {
			wrong(`%q is no pattern of queues: give a name, or the beginning of one and "*"`, q)
		}
	}
	if t.Rate < 0 || t.Burst < 0 {
		wrong("its rate and burst must not be less than zero")
	}
	return errors.Join(errs...)
}

func (t *Token) sum() [sha256.Size]byte {
	if t.Secret != "" {
		return sha256.Sum256([]byte(t.Secret))
	}
	var sum [sha256.Size]byte
	_, _ = hex.Decode(sum[:], []byte(t.SHA256)) // Check has passed it
	return sum
}

// Holder is who sent a token. It is safe for concurrent use.
type Holder struct {
	Name   string
	sum    [sha256.Size]byte
	scopes []Scope
	queues []string
	limit  *rate.Limiter // nil: none
}

// May reports whether the holder may do something, in any queue.
func (h *Holder) May(scope Scope) bool { return slices.Contains(h.scopes, scope) }

// Sees reports whether the token is good for a queue.
func (h *Holder) Sees(queue string) bool {
	for _, pattern := range h.queues {
		if Matches(pattern, queue) {
			return true
		}
	}
	return false
}

// SeesAll reports whether the token is good for all queues.
func (h *Holder) SeesAll() bool { return slices.Contains(h.queues, "*") }

// Admit counts a request, or tells how long to wait before the next one.
func (h *Holder) Admit() (wait time.Duration) {
	if h.limit == nil {
		return 0
	}
	r := h.limit.Reserve()
	if !r.OK() {
		return time.Second // a burst of none
	}
	if wait = r.Delay(); wait > 0 {
		r.Cancel()
	}
	return wait
}

// Matches reports whether a pattern is this name, or ends in "*" and is a beginning of it.
func Matches(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}
