package access

import (
	"net/http"
	"strings"
	"testing"
)

func TestProxyUser(t *testing.T) {
	t.Parallel()
	p := Proxy{From: []string{"127.0.0.0/8", "::1", "fe80::/10", "unix"}, UserHeader: "X-Forwarded-User", RoleHeader: "X-Role", GroupsHeader: "X-Groups",
		Groups: map[string]Role{"ops": Operator, "boss": Admin, "guests": None}, Role: Viewer}
	g, _ := newGuard(t, Config{Proxy: &p})
	user := header("x-forwarded-user", "ann")
	for _, tc := range []struct {
		name   string
		edits  []func(*http.Request)
		status int
		body   string
	}{
		{"default role", []func(*http.Request){user}, 200, "ann (viewer)"},
		{"IPv6", []func(*http.Request){user, from("[::1]:9")}, 200, "ann (viewer)"},
		{"IPv4 in IPv6", []func(*http.Request){user, from("[::ffff:127.0.0.3]:9")}, 200, "ann (viewer)"},
		{"unix", []func(*http.Request){user, from("@"), listener("unix")}, 200, "ann (viewer)"},
		{"any host", []func(*http.Request){user, host("queues.example.com")}, 200, "ann (viewer)"},
		{"role", []func(*http.Request){user, header("X-Role", "Operator")}, 200, "ann (operator)"},
		{"role before groups", []func(*http.Request){user, header("X-Role", "viewer"), header("X-Groups", "boss")}, 200, "ann (viewer)"},
		{"unknown role", []func(*http.Request){user, header("X-Role", "root"), header("X-Groups", "boss")}, 403, ""},
		{"groups", []func(*http.Request){user, header("X-Groups", "all, ops ,x")}, 200, "ann (operator)"},
		{"groups in several headers", []func(*http.Request){user, header("X-Groups", "ops", "boss")}, 200, "ann (admin)"},
		{"highest group first", []func(*http.Request){user, header("X-Groups", "boss,ops")}, 200, "ann (admin)"},
		{"link-local", []func(*http.Request){user, from("[fe80::1%eth0]:9")}, 200, "ann (viewer)"},
		{"unknown groups", []func(*http.Request){user, header("X-Groups", "Boss,opsx")}, 200, "ann (viewer)"},
		{"group without role", []func(*http.Request){user, header("X-Groups", "guests")}, 403, ""},
		{"no user", nil, 403, ""},
		{"empty user", []func(*http.Request){header("X-Forwarded-User", " "), header("X-Role", "admin")}, 403, ""},
		{"two users", []func(*http.Request){header("X-Forwarded-User", "eve", "ann")}, 400, ""},
		{"two roles", []func(*http.Request){user, header("X-Role", "admin", "viewer")}, 400, ""},
		{"control characters", []func(*http.Request){header("X-Forwarded-User", "a\tb")}, 400, ""},
		{"no text", []func(*http.Request){header("X-Forwarded-User", "a\xff")}, 400, ""},
		{"long", []func(*http.Request){header("X-Forwarded-User", strings.Repeat("a", 300))}, 400, ""},
		{"from elsewhere", []func(*http.Request){user, from("192.0.2.1:9")}, 403, ""},
		{"from elsewhere, spoofed", []func(*http.Request){user, from("192.0.2.1:9"), header("X-Forwarded-For", "127.0.0.1")}, 403, ""},
		{"remote without port", []func(*http.Request){user, from("127.0.0.1")}, 403, ""},
		{"no remote", []func(*http.Request){user, from("")}, 403, ""},
	} {
		w := serve(g, newRequest(http.MethodGet, "/", tc.edits...))
		if w.Code != tc.status || tc.body != "" && w.Body.String() != tc.body {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
	}
	p.From = []string{"10.0.0.0/8"}
	g, _ = newGuard(t, Config{Proxy: &p})
	want(t, serve(g, newRequest(http.MethodGet, "/", user, from("@"), listener("unix"))), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodGet, "/", user, listener("unix"), from("10.0.0.1:9"))), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodGet, "/", user, from("10.200.0.1:9"))), http.StatusOK)
}

// A hook must not see headers that did not come from the proxy.
func TestProxyHeadersOfOthersAreRemoved(t *testing.T) {
	t.Parallel()
	var seen http.Header
	g, _ := newGuard(t, Config{Anonymous: Viewer,
		Proxy: &Proxy{From: []string{"10.0.0.1"}, UserHeader: "Remote-User", RoleHeader: "X-Role", GroupsHeader: "X-Groups", Groups: map[string]Role{"a": Admin}},
		Authorize: func(r *http.Request, _ Action) error {
			seen = r.Header
			return nil
		}})
	r := newRequest(http.MethodGet, "/", header("Remote-User", "eve"), header("X-Role", "admin"), header("X-Groups", "a"), header("X-Other", "1"))
	want(t, serve(g, r), http.StatusOK, " (viewer)")
	if len(seen) != 1 || seen.Get("X-Other") != "1" {
		t.Errorf("the hook saw %v", seen)
	}
	if r.Header.Get("Remote-User") != "eve" {
		t.Error("the caller's request has changed")
	}
	r.RemoteAddr = "10.0.0.1:1"
	want(t, serve(g, r), http.StatusOK, "eve (admin)")
	if seen.Get("Remote-User") != "eve" {
		t.Errorf("the hook saw %v", seen)
	}
}

func TestProxyClient(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Proxy: &Proxy{From: []string{"127.0.0.1", "10.0.0.0/8", "unix"}}, Anonymous: Viewer})
	for _, tc := range []struct {
		remote string
		via    []string
		want   string
	}{
		{"192.0.2.9:1", []string{"198.51.100.1"}, "192.0.2.9"},
		{"127.0.0.1:1", nil, "127.0.0.1"},
		{"127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"1.1.1.1", "198.51.100.1, 10.1.1.1"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"10.2.2.2, 10.1.1.1"}, "10.2.2.2"},
		{"127.0.0.1:1", []string{"198.51.100.1, unknown, 10.1.1.1"}, "10.1.1.1"},
		{"127.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"127.0.0.1:1", []string{"2001:db8::1"}, "2001:db8::1"},
		{"127.0.0.1:1", []string{"'<script>"}, "127.0.0.1"},
		{"nonsense", nil, "nonsense"},
		{"unix", []string{"198.51.100.1"}, "198.51.100.1"},
		{"unix", nil, "unix"},
	} {
		r := newRequest(http.MethodGet, "/", from(tc.remote))
		if tc.remote == "unix" {
			r = newRequest(http.MethodGet, "/", from("@"), listener("unix"))
		}
		if tc.via != nil {
			r.Header["X-Forwarded-For"] = tc.via
		}
		if got := g.remote(r); got != tc.want {
			t.Errorf("%s via %q: %s, want %s", tc.remote, tc.via, got, tc.want)
		}
	}
}

// A user without the proxy's headers can still log in with a password.
func TestProxyAndPassword(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Proxy: &Proxy{From: []string{"127.0.0.1"}, UserHeader: "X-User", Role: Viewer}, Users: []User{{Name: "bob", Password: "p", Role: Admin}}})
	want(t, serve(g, newRequest(http.MethodGet, "/", basic("bob", "p"))), http.StatusOK, "bob (admin)")
	want(t, serve(g, newRequest(http.MethodGet, "/", basic("bob", "p"), header("X-User", "ann"))), http.StatusOK, "ann (viewer)")
	// Requests may carry the proxy's own passwords.
	want(t, serve(g, newRequest(http.MethodGet, "/", basic("ann", "other"), header("X-User", "ann"))), http.StatusOK, "ann (viewer)")
	want(t, serve(g, newRequest(http.MethodGet, "/")), http.StatusUnauthorized)
	want(t, serve(g, newRequest(http.MethodGet, "/", from("192.0.2.1:1"), header("X-User", "ann"))), http.StatusUnauthorized)
}
