package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// count replaces bcrypt by a stub that counts its steps, since the race detector makes bcrypt slow.
// The right password is p, for users who have one.
func count(g *Guard) *atomic.Int64 {
	var steps atomic.Int64
	g.passwords.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			panic(err)
		}
		steps.Add(1 << cost)
		if string(password) != "p" || bytes.Equal(hash, dummyHash(cost)) {
			return bcrypt.ErrMismatchedHashAndPassword
		}
		return nil
	}
	return &steps
}

func TestPassword(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Realm: `the "queues"\`, Users: []User{
		{Name: "hashed", Password: hash(t, "geheim", 4), Role: Viewer},
		{Name: "htpasswd", Password: strings.Replace(hash(t, "geheim", 4), "$2a$", "$2y$", 1), Role: Operator},
		{Name: "plain", Password: "pass:word ü", Role: Admin},
	}})
	for _, tc := range []struct {
		name, password string
		body           string // empty: refused
	}{
		{"hashed", "geheim", "hashed (viewer)"},
		{"htpasswd", "geheim", "htpasswd (operator)"},
		{"plain", "pass:word ü", "plain (admin)"},
		{"hashed", "Geheim", ""},
		{"hashed", "", ""},
		{"plain", "", ""},
		{"plain", "pass:word", ""},
		{"Plain", "pass:word ü", ""},
		{"", "", ""},
		{"", "geheim", ""},
		{"hashed", strings.Repeat("x", 5000), ""},
		{"plainpass", ":word ü", ""},
		{"nobody", "geheim", ""},
		{"nobody", "", ""},
	} {
		w := serve(g, newRequest(http.MethodGet, "/", from("192.0.2.1:9"), host("queues.example.com"), basic(tc.name, tc.password)))
		if tc.body != "" {
			want(t, w, http.StatusOK, tc.body)
			continue
		}
		want(t, w, http.StatusUnauthorized)
		if h := w.Header().Get("WWW-Authenticate"); h != `Basic realm="the \"queues\"\\", charset="UTF-8"` {
			t.Error(h)
		}
	}
	for _, h := range []string{"", "Basic", "Basic !!!", "Basic dXNlcg==", "basic x", "Bearer abc"} {
		w := serve(g, newRequest(http.MethodGet, "/", header("Authorization", h)))
		want(t, w, http.StatusUnauthorized)
		if w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%q: no challenge", h)
		}
	}
	if g.cfg.Users != nil {
		t.Error("the configuration still has the password")
	}
	u := User{Name: "plain", Password: "pass:word", Role: Admin}
	if s := fmt.Sprintf("%v %+v %#v %v", u, u, []User{u}, u.LogValue()); strings.Contains(s, "pass") {
		t.Error(s)
	}
}

// The steps of bcrypt, and so the time, are the same for all wrong passwords, whether the name
// exists or not.
func TestPasswordTimeHidesNames(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{
		{Name: "cheap", Password: hash(t, "p", 4), Role: Viewer},
		{Name: "dear", Password: hash(t, "p", 7), Role: Viewer},
		{Name: "plain", Password: "p", Role: Viewer},
	}})
	steps := count(g)
	for _, name := range []string{"cheap", "dear", "plain", "nobody"} {
		for _, password := range []string{"wrong", ""} {
			steps.Store(0)
			want(t, serve(g, newRequest(http.MethodGet, "/", basic(name, password))), http.StatusUnauthorized)
			if steps.Load() != 1<<7 {
				t.Errorf("%s with %q took %d steps", name, password, steps.Load())
			}
		}
	}
	for cost := 4; cost <= 5; cost++ {
		if err := bcrypt.CompareHashAndPassword(dummyHash(cost), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("no hash: %v", err)
		}
	}
}

func TestPasswordIsAskedOfBcryptOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t, Config{Users: []User{{Name: "ann", Password: hash(t, "p", 4), Role: Viewer}}})
		steps := count(g)
		all := func(n int, address string) {
			var wg sync.WaitGroup
			defer wg.Wait()
			busy := g.passwords.accounts["ann"].busy
			busy <- struct{}{}
			for i := range n {
				wg.Go(func() {
					want(t, serve(g, newRequest(http.MethodGet, "/", basic("ann", "p"), from(fmt.Sprintf(address, i)))), http.StatusOK)
				})
			}
			synctest.Wait() // requests without a cached result wait for the first one
			<-busy
		}
		// A page with many parallel requests neither runs bcrypt many times nor is blocked.
		all(100, "127.0.0.1:%d")
		all(100, "127.0.0.%d:1")
		if steps.Load() != 1<<4 {
			t.Errorf("%d steps", steps.Load())
		}
		if n := len(g.passwords.wrong.buckets); n != 0 {
			t.Errorf("%d addresses are remembered for right passwords", n)
		}
		want(t, serve(g, newRequest(http.MethodGet, "/", basic("ann", "q"))), http.StatusUnauthorized)
		time.Sleep(passwordSeen + time.Second)
		steps.Store(0)
		all(100, "127.0.0.1:%d")
		if steps.Load() != 1<<4 {
			t.Errorf("%d steps after a while", steps.Load())
		}
	})
}

func TestPasswordWaitsNoLongerThanTheRequest(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{{Name: "ann", Password: hash(t, "p", 4), Role: Viewer}}})
	g.passwords.accounts["ann"].busy <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, serve(g, newRequest(http.MethodGet, "/", basic("ann", "p")).WithContext(ctx)), http.StatusServiceUnavailable)
}

func TestWrongPasswordsAreThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, l := newGuard(t, Config{Users: []User{
			{Name: "ann", Password: hash(t, "p", 4), Role: Viewer}, {Name: "bob", Password: "p", Role: Viewer}}})
		steps := count(g)
		get := func(name, password, remote string) int {
			return serve(g, newRequest(http.MethodGet, "/", basic(name, password), from(remote))).Code
		}
		for _, name := range []string{"ann", "bob", "nobody"} {
			for range 10 {
				if code := get(name, "wrong", "192.0.2.1:9"); code != http.StatusUnauthorized {
					t.Fatal(code)
				}
			}
		}
		steps.Store(0)
		for _, name := range []string{"ann", "bob", "nobody"} {
			// The right password is refused as well. Otherwise guessing could continue, and success
			// would be visible.
			w := serve(g, newRequest(http.MethodGet, "/", basic(name, "p"), from("192.0.2.1:9")))
			want(t, w, http.StatusTooManyRequests)
			if w.Header().Get("Retry-After") != "7" && w.Header().Get("Retry-After") != "6" {
				t.Error(w.Header())
			}
		}
		if steps.Load() != 0 {
			t.Error("a blocked address can keep bcrypt busy")
		}
		if code := get("bob", "p", "192.0.2.2:9"); code != http.StatusOK {
			t.Error("another address is blocked:", code)
		}
		time.Sleep(7 * time.Second)
		if code := get("bob", "p", "192.0.2.1:9"); code != http.StatusOK {
			t.Error("still blocked:", code)
		}
		if code := get("ann", "wrong", "192.0.2.1:9"); code != http.StatusUnauthorized {
			t.Error(code)
		}
		if code := get("ann", "wrong", "192.0.2.1:9"); code != http.StatusTooManyRequests {
			t.Error("more than one in six seconds:", code)
		}
		lines := l.lines(t, "login refused")
		for i, line := range lines[:30] {
			if line["level"] != "WARN" || line["remote"] != "192.0.2.1" || (line["user"] == nil) != (i >= 20) {
				t.Errorf("line %d: %v", i, line)
			}
		}
		for _, line := range lines[30:33] {
			if line["level"] != "DEBUG" {
				t.Error(line)
			}
		}

		// Many names from one address, and from one network of IPv6.
		for i := range 200 {
			code := get(fmt.Sprint("name", i), "x", fmt.Sprintf("[2001:db8::%x]:9", i))
			if i < 50 && code != http.StatusUnauthorized || i >= 50 && code != http.StatusTooManyRequests {
				t.Errorf("name %d: %d", i, code)
			}
		}
		if code := get("bob", "p", "[2001:db8:0:1::1]:9"); code != http.StatusOK {
			t.Error("another network is blocked:", code)
		}
	})
}

// Concurrent guesses are limited like sequential ones.
func TestWrongPasswordsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t, Config{Users: []User{{Name: "ann", Password: hash(t, "p", 4), Role: Viewer}}})
		steps := count(g)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { serve(g, newRequest(http.MethodGet, "/", basic("ann", fmt.Sprint(i)))) })
		}
		wg.Wait()
		if steps.Load() != 10<<4 {
			t.Errorf("%d steps", steps.Load())
		}
	})
}

func TestThrottleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle()
		keys := func(i int) [2]throttleKey {
			a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			return [2]throttleKey{{addr: a}, {addr: a, name: [16]byte{1}}}
		}
		for i := range 2 * maxBuckets {
			if th.take(keys(i)); len(th.buckets) > maxBuckets {
				t.Fatal(len(th.buckets))
			}
		}
		if len(th.buckets) < maxBuckets/2 {
			t.Errorf("%d addresses are remembered only", len(th.buckets))
		}
		for i := 1 << 16; len(th.buckets) < maxBuckets-1; i++ {
			th.take(keys(i))
		}
		time.Sleep(time.Minute)
		th.take(keys(1 << 20))
		if len(th.buckets) != 2 {
			t.Errorf("%d addresses are remembered that could be forgotten", len(th.buckets))
		}
	})
}

func TestThrottleWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle()
		keys := [2]throttleKey{{}, {name: [16]byte{1}}}
		for range 10 {
			if wait := th.take(keys); wait != 0 {
				t.Fatal(wait)
			}
		}
		wait := th.take(keys)
		if wait < 6*time.Second || wait > 6*time.Second+time.Millisecond {
			t.Fatal(wait)
		}
		if th.blocked(keys) != wait {
			t.Error(th.blocked(keys))
		}
		if n := th.buckets[keys[0]].tokens; n != 40 {
			t.Errorf("a refused take has taken: %v", n)
		}
		time.Sleep(wait)
		if wait := th.take(keys); wait != 0 {
			t.Error(wait)
		}
	})
}
