package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// passwordSeen is how long a password verified by bcrypt is cached. A page makes many requests.
	passwordSeen = 5 * time.Minute
	// maxCost bounds the cost of bcrypt hashes. A cost of 15 takes seconds.
	maxCost = 15
)

var errWrongPassword = errors.New("wrong user or password")

// passwords has the users that log in with a password.
type passwords struct {
	key     [32]byte // of the MACs, random for each process
	unknown *account // stands for all unknown names
	wrong   *throttle
	compare func(hash, password []byte) error // bcrypt's

	mu       sync.RWMutex        // guards the fields; set replaces the map
	accounts map[string]*account // by name
	cost     int                 // maximum of all accounts; 0 if no password is hashed
}

// account is a user with a password.
type account struct {
	user User   // without the password
	set  []byte // MAC of the configured password or hash
	hash []byte
	cost int // of hash; 0: there is only the MAC of the password
	seen atomic.Pointer[seen]
	busy chan struct{} // holds a token while bcrypt runs, so that the requests of one page share one verification
}

// seen is the MAC of a verified password.
type seen struct {
	mac   []byte
	until time.Time // zero: no expiry
}

func newPasswords(users []User) *passwords {
	p := &passwords{wrong: newThrottle(), compare: bcrypt.CompareHashAndPassword}
	_, _ = rand.Read(p.key[:]) // never fails
	p.unknown = &account{busy: make(chan struct{}, 1)}
	p.unknown.seen.Store(&seen{mac: p.mac(rand.Text(), rand.Text())})
	p.set(users)
	return p
}

// set replaces the users. Users whose password is unchanged keep their verified passwords.
func (p *passwords) set(users []User) {
	accounts, cost := make(map[string]*account, len(users)), 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range users {
		a := &account{user: User{Name: u.Name, Role: u.Role}, set: p.mac(u.Name, u.Password), busy: make(chan struct{}, 1)}
		if hashed(u.Password) {
			a.hash = []byte(u.Password)
			a.cost, _ = bcrypt.Cost(a.hash)
		} else {
			a.seen.Store(&seen{mac: a.set})
		}
		if old := p.accounts[u.Name]; old != nil && hmac.Equal(old.set, a.set) {
			a.seen.Store(old.seen.Load())
			a.busy = old.busy
		}
		cost = max(cost, a.cost)
		accounts[u.Name] = a
	}
	p.accounts, p.cost = accounts, cost
}

// account returns the account with a name, or nil, and the maximum cost of all accounts.
func (p *passwords) account(name string) (a *account, cost int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.accounts[name], p.cost
}

// check verifies a name and a password. The error is errWrongPassword, a *tooMany, or that of ctx.
// Unknown names take as long as wrong passwords.
func (p *passwords) check(ctx context.Context, addr netip.Addr, name, password string) (User, error) {
	a, cost := p.account(name)
	if a == nil {
		a = p.unknown
	}
	mac := p.mac(name, password)
	// A blocked address is refused before any comparison. Otherwise it could continue guessing, and
	// the right guess would succeed.
	keys := [2]throttleKey{{addr: addr}, {addr: addr, name: p.short(name)}}
	if wait := p.wrong.blocked(keys); wait > 0 {
		return User{}, &tooMany{wait}
	}
	if a.known(mac) {
		return a.user, nil
	}
	select {
	case a.busy <- struct{}{}:
	case <-ctx.Done():
		return User{}, ctx.Err()
	}
	defer func() { <-a.busy }()
	if a.known(mac) {
		return a.user, nil
	}
	// Tokens are taken before the check, so that concurrent guesses cannot exceed the limit.
	if wait := p.wrong.take(keys); wait > 0 {
		return User{}, &tooMany{wait}
	}
	if a.hash != nil && password != "" && p.compare(a.hash, []byte(password)) == nil {
		p.wrong.giveBack(keys)
		a.seen.Store(&seen{mac: mac, until: time.Now().Add(passwordSeen)})
		return a.user, nil
	}
	p.pad(a, cost, password)
	return User{}, errWrongPassword
}

// pad takes as much more time as bcrypt would for the most expensive hash. A cost c takes 2^c
// steps, and 2^c + 2^c + 2^(c+1) + … + 2^(d-1) = 2^d. So the duration does not reveal which names
// exist.
func (p *passwords) pad(a *account, cost int, password string) {
	if cost == 0 {
		return
	}
	from, to := a.cost, cost
	if a.hash == nil || password == "" {
		from, to = cost, cost+1
	}
	for c := from; c < to; c++ {
		_ = p.compare(dummyHash(c), []byte(password))
	}
}

// dummyHash returns the hash of a random password.
func dummyHash(cost int) []byte {
	return []byte(fmt.Sprintf("$2a$%02d$%s", cost, strings.Repeat("a", 21)+"."+strings.Repeat("a", 30)+"."))
}

func (a *account) known(mac []byte) bool {
	s := a.seen.Load()
	return s != nil && hmac.Equal(s.mac, mac) && (s.until.IsZero() || time.Now().Before(s.until))
}

func (p *passwords) mac(name, password string) []byte {
	h := hmac.New(sha256.New, p.key[:])
	fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	return h.Sum(nil)
}

// short returns a digest of a name of any length.
func (p *passwords) short(name string) (out [16]byte) {
	copy(out[:], p.mac(name, ""))
	return out
}

func hashed(password string) bool {
	for _, prefix := range []string{"$2a$", "$2b$", "$2x$", "$2y$"} {
		if strings.HasPrefix(password, prefix) {
			return true
		}
	}
	return false
}

func checkPassword(u *User) error {
	if !hashed(u.Password) {
		return nil
	}
	cost, err := bcrypt.Cost([]byte(u.Password))
	if err == nil {
		// bcrypt.Cost checks only the beginning of the hash.
		err = bcrypt.CompareHashAndPassword([]byte(u.Password[:4]+"04"+u.Password[6:]), []byte("x"))
		if errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			err = nil
		}
	}
	switch {
	case err != nil || len(u.Password) != 60:
		return fmt.Errorf("the password of user %q looks like a bcrypt hash, but is invalid", u.Name)
	case cost > maxCost:
		return fmt.Errorf("the bcrypt hash of user %q has cost %d, so each login would take minutes: use at most %d", u.Name, cost, maxCost)
	}
	return nil
}
