package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// Keyring knows all tokens. It does not change.
type Keyring struct{ holders []*Holder }

// Rate is how often a token may be used, unless it says otherwise. No Requests: as often as one likes.
type Rate struct {
	Requests float64 // a second
	Burst    int     // zero: twice as many as Requests
}

// New makes a keyring, or tells all that is wrong with the tokens. Tokens that were on the ring before have used what they have
// used of their rates.
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
			errs = append(errs, fmt.Errorf("token %q: there are two of this name", t.Name))
		}
		if other, ok := sums[sum]; ok {
			errs = append(errs, fmt.Errorf("token %q: it has the secret of token %q: whose request was it?", t.Name, other))
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

// limiter makes the limiter of a token, or changes the one that it had.
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

// Find returns who holds a secret; nil if nobody does. How long it takes tells nothing of the secrets: it compares digests, each of
// them, all of it.
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
