package access

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func listener(network string) func(*http.Request) {
	return func(r *http.Request) {
		var addr net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
		if network == "unix" {
			addr = &net.UnixAddr{Name: "/run/web.sock", Net: "unix"}
		}
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
	}
}

func TestLocalOnly(t *testing.T) {
	t.Parallel()
	many := func(edits ...func(*http.Request)) []func(*http.Request) { return edits }
	http10 := func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0 }
	http2 := func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0 }
	for _, tc := range []struct {
		name  string
		edits []func(*http.Request)
		ok    bool
	}{
		{"browser", nil, true},
		{"listener known", many(listener("tcp")), true},
		{"HTTP/2", many(http2), true},
		{"IPv6", many(from("[::1]:9"), host("[::1]:8080")), true},
		{"IPv4 in IPv6", many(from("[::ffff:127.0.0.1]:9")), true},
		{"other loopback address", many(from("127.9.9.9:9"), host("127.0.0.2")), true},
		{"host without port", many(host("localhost")), true},
		{"host in capitals", many(host("LocalHost:80")), true},
		{"page of its own", many(header("Sec-Fetch-Site", "same-origin"), header("Origin", "http://localhost:8080"), header("Referer", "http://localhost:8080/queues")), true},
		{"link from elsewhere", many(header("Sec-Fetch-Site", "cross-site"), header("Referer", "https://example.com/")), true},

		{"network", many(from("192.0.2.1:9")), false},
		{"IPv6 network", many(from("[2001:db8::1]:9")), false},
		{"unspecified", many(from("0.0.0.0:9")), false},
		{"link-local", many(from("[fe80::1%lo]:9")), false},
		{"IPv4 in IPv6 network", many(from("[::ffff:192.0.2.1]:9")), false},
		{"no remote", many(from("")), false},
		{"unnamed remote", many(from("@")), false},
		{"remote without port", many(from("127.0.0.1")), false}, // written by middleware, from a header
		{"remote is a name", many(from("localhost:9")), false},
		{"unix", many(from("@"), listener("unix")), false},
		{"unix, no remote", many(from(""), listener("unix")), false},
		{"unix, remote made up", many(listener("unix")), false},

		{"rebinding", many(host("evil.example:8080")), false},
		{"no host", many(host("")), false},
		{"network host", many(host("192.0.2.1:8080")), false},
		{"all-zero host", many(host("0.0.0.0:8080")), false},
		{"subdomain", many(host("127.0.0.1.evil.example")), false},
		{"localhost in front", many(host("localhost.evil.example")), false},
		{"localhost behind", many(host("evil.localhost")), false},
		{"dot", many(host("localhost.")), false},
		{"userinfo", many(host("evil.example@localhost")), false},
		{"userinfo and port", many(host("localhost:80@evil.example")), false},
		{"port with letters", many(host("localhost:evil.example")), false},
		{"two ports", many(host("localhost:80:80")), false},
		{"number", many(host("2130706433")), false},
		{"short address", many(host("127.1")), false},
		{"octal address", many(host("0177.0.0.1")), false},
		{"bare IPv6", many(host("::1")), false},
		{"open bracket", many(host("[::1")), false},
		{"bracketed IPv4", many(host("[127.0.0.1]")), false},
		{"zone", many(host("[::1%25lo]")), false},
		{"brackets and more", many(host("[::1].evil.example:80")), false},
		{"bracketed name", many(host("[localhost]")), false},

		{"nginx by default", many(http10), false},
		{"Forwarded", many(header("Forwarded", "for=192.0.2.1")), false},
		{"X-Forwarded-For", many(header("X-Forwarded-For", "127.0.0.1")), false},
		{"X-Forwarded-Host", many(header("X-Forwarded-Host", "localhost")), false},
		{"empty X-Forwarded-For", many(header("X-Forwarded-For", "")), false},
		{"X-Forwarded-Unheard-Of", many(header("X-Forwarded-Unheard-Of", "1")), false},
		{"X-Real-IP", many(header("X-Real-IP", "127.0.0.1")), false},
		{"Via", many(header("Via", "1.1 proxy")), false},
		{"proxy that writes the host", many(header("Sec-Fetch-Site", "same-origin"), header("Referer", "https://queues.example.com/")), false},
		{"the same, on post", many(header("Sec-Fetch-Site", "same-origin"), header("Origin", "https://queues.example.com")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g, _ := newGuard(t, Config{})
			w := serve(g, newRequest(http.MethodGet, "/", tc.edits...))
			if tc.ok {
				want(t, w, http.StatusOK, " (viewer)")
				return
			}
			want(t, w, http.StatusForbidden)
			if !strings.Contains(w.Body.String(), "configure") {
				t.Errorf("the body does not help: %s", w.Body)
			}
			if h := w.Header().Get("WWW-Authenticate"); h != "" {
				t.Errorf("requires a password without users: %s", h)
			}
		})
	}
}

// Once access is configured, local requests have no special rights.
func TestLocalHasNoRightsOnceConfigured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg    Config
		status int
		body   string
	}{
		"users":     {Config{Users: []User{{Name: "u", Password: "p", Role: Admin}}}, http.StatusUnauthorized, ""},
		"proxy":     {Config{Proxy: &Proxy{From: []string{"127.0.0.1"}, UserHeader: "X-User", Role: Admin}}, http.StatusForbidden, ""},
		"addresses": {Config{Proxy: &Proxy{From: []string{"127.0.0.1"}}}, http.StatusForbidden, ""},
		"anonymous": {Config{Anonymous: Viewer}, http.StatusOK, " (viewer)"},
		"both":      {Config{Anonymous: Viewer, Authorize: func(*http.Request, Action) error { return nil }}, http.StatusOK, " (viewer)"},
	} {
		g, _ := newGuard(t, tc.cfg)
		w := serve(g, newRequest(http.MethodGet, "/"))
		if w.Code != tc.status || tc.body != "" && w.Body.String() != tc.body {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A server on a Unix socket, with the addresses that net/http reports.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	for name, tc := range map[string]struct {
		cfg    Config
		status int
	}{
		"default":     {Config{}, http.StatusForbidden},
		"other proxy": {Config{Proxy: &Proxy{From: []string{"0.0.0.0/0", "::/0"}, UserHeader: "X-User", Role: Viewer}}, http.StatusForbidden},
		"proxy":       {Config{Proxy: &Proxy{From: []string{"unix"}, UserHeader: "X-User", Role: Viewer}}, http.StatusOK},
	} {
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		g, _ := newGuard(t, tc.cfg)
		s := httptest.NewUnstartedServer(g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		_ = s.Listener.Close()
		s.Listener = ln
		s.Start()
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-User", "ann")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tc.status {
			t.Errorf("%s: %s", name, resp.Status)
		}
		client.CloseIdleConnections()
		s.Close()
	}
}
