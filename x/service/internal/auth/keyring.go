package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// Keyring holds all tokens. It is immutable.
type Keyring struct{ holders []*Holder }

// Rate is the default rate limit of a token. Zero Requests means no limit.
type Rate struct {
	Requests float64 // per second
	Burst    int     // zero means twice Requests
}

// New returns a keyring. The error lists everything that is invalid. Tokens that the previous
// keyring holds keep the state of their rate limiters.
func New(tokens []Token, usual Rate, before *Keyring) (*Keyring, error) {
	var errs []error
	names := make(map[string]bool)
	sums := make(map[[sha256.Size]byte]string)
	ring := new(Keyring)
	for i := range tokens {
		t := &tokens[i]
		if err := t.Check(); err != nil {
			errs = append(errs, err)
			continue
		}
		sum := t.sum()
		if names[t.Name] {
			errs = append(errs, fmt.Errorf("token %q: duplicate name", t.Name))
		}
		if other, ok := sums[sum]; ok {
			errs = append(errs, fmt.Errorf("token %q: same secret as token %q: each token needs its own", t.Name, other))
		}
		names[t.Name], sums[sum] = true, t.Name
		ring.holders = append(ring.holders, &Holder{
			Name: t.Name, sum: sum, scopes: t.Scopes, queues: t.Queues, limit: before.limiter(t, usual),
		})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return ring, nil
}

// limiter returns the limiter of a token: the previous one, with the new limits, if there is one.
func (k *Keyring) limiter(t *Token, usual Rate) *rate.Limiter {
	if t.Rate > 0 {
		usual.Requests, usual.Burst = t.Rate, 0
	}
	if t.Burst > 0 {
		usual.Burst = t.Burst
	}
	if usual.Requests <= 0 {
		return nil
	}
	if usual.Burst <= 0 {
		usual.Burst = int(math.Ceil(2 * usual.Requests))
	}
	if k != nil {
		for _, h := range k.holders {
			if h.Name == t.Name && h.limit != nil {
				h.limit.SetLimit(rate.Limit(usual.Requests))
				h.limit.SetBurst(usual.Burst)
				return h.limit
			}
		}
	}
	return rate.NewLimiter(rate.Limit(usual.Requests), usual.Burst)
}

// Find returns the holder of a secret; nil if the secret is unknown. It compares the digests of all
// tokens in constant time, so that its duration reveals nothing about the secrets.
func (k *Keyring) Find(secret string) *Holder {
	sum := sha256.Sum256([]byte(secret))
	var found *Holder
	for _, h := range k.holders {
		if subtle.ConstantTimeCompare(sum[:], h.sum[:]) == 1 {
			found = h
		}
	}
	return found
}
