package access

import (
	"strings"
	"testing"
)

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	user := func(name, password string, role Role) Config {
		return Config{Users: []User{{Name: name, Password: password, Role: role}}}
	}
	proxy := func(p Proxy) Config { return Config{Proxy: &p} }
	ok := Proxy{From: []string{"127.0.0.1"}, UserHeader: "X-User", Role: Viewer}
	with := func(edit func(*Proxy)) Config {
		p := ok
		edit(&p)
		return proxy(p)
	}
	good := hash(t, "p", 4)
	for _, tc := range []struct {
		cfg  Config
		want string // in the error
	}{
		{user("", "p", Viewer), "no name"},
		{user("a:b", "p", Viewer), "colon"},
		{user("a\nb", "p", Viewer), "control"},
		{user("a\xff", "p", Viewer), "text"},
		{user("a", "", Viewer), "no password"},
		{user("a", "p", None), "no role"},
		{user("a", "p", 7), "no role"},
		{user("a", good[:40], Viewer), "bcrypt"},
		{user("a", good[:59], Viewer), "bcrypt"},
		{user("a", good+"x", Viewer), "bcrypt"},
		{user("a", "$2a$xx"+good[6:], Viewer), "bcrypt"},
		{user("a", "$2a$", Viewer), "bcrypt"},
		{user("a", "$2a$31"+good[6:], Viewer), "cost 31"},
		{Config{Users: []User{{"a", "p", Viewer}, {"a", "q", Admin}}}, "duplicate user name"},
		{Config{Anonymous: 9}, "Anonymous"},
		{Config{MaxBody: -1}, "MaxBody"},
		{Config{RootPath: "queues"}, "RootPath"},
		{Config{RootPath: "/queues/"}, "RootPath"},
		{Config{RootPath: "/"}, "RootPath"},
		{Config{Static: "/"}, "Static"},
		{Config{Static: "x/"}, "Static"},
		{Config{Realm: "a\r\nb"}, "Realm"},
		{Config{Origins: []string{"*"}}, "origin"},
		{Config{Origins: []string{"null"}}, "origin"},
		{Config{Origins: []string{""}}, "origin"},
		{Config{Origins: []string{"https://*.example.com"}}, "origin"},
		{Config{Origins: []string{"https://example.com/"}}, "origin"},
		{Config{Origins: []string{"https://example.com?x"}}, "origin"},
		{Config{Origins: []string{"https://example.com?"}}, "origin"},
		{Config{Origins: []string{"https://example.com#"}}, "origin"},
		{Config{Origins: []string{"https://u@example.com"}}, "origin"},
		{Config{Origins: []string{"example.com"}}, "origin"},
		{Config{Origins: []string{"file://x"}}, "origin"},
		{proxy(Proxy{UserHeader: "X-User", Role: Viewer}), "From"},
		{with(func(p *Proxy) { p.From = []string{"localhost"} }), "From"},
		{with(func(p *Proxy) { p.From = []string{"10.0.0.0/33"} }), "From"},
		{with(func(p *Proxy) { p.From = []string{"::ffff:10.0.0.0/104"} }), "From"},
		{with(func(p *Proxy) { p.From = []string{""} }), "From"},
		{with(func(p *Proxy) { p.UserHeader = "X User" }), "header"},
		{with(func(p *Proxy) { p.UserHeader = "" }), "UserHeader"},
		{with(func(p *Proxy) { p.Role = None }), "no user"},
		{with(func(p *Proxy) { p.Role = 5 }), "Role"},
		{with(func(p *Proxy) { p.GroupsHeader = "X-Groups" }), "together"},
		{with(func(p *Proxy) { p.Groups = map[string]Role{"a": Viewer} }), "together"},
		{with(func(p *Proxy) { p.GroupsHeader, p.Groups = "X-Groups", map[string]Role{"a": 8} }), "group"},
	} {
		g, err := New(tc.cfg)
		if err == nil || g != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want one about %q", tc.cfg, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), good[10:30]) {
			t.Errorf("the error tells the hash: %v", err)
		}
	}
	for _, cfg := range []Config{
		{},
		{RootPath: "/a/b", Static: "/assets/", Realm: "Tasks ü", MaxBody: 1},
		proxy(ok),
		proxy(Proxy{From: []string{"::1", "10.0.0.7/8", "unix"}}),
		with(func(p *Proxy) { p.Role, p.RoleHeader = None, "X-Role" }),
		with(func(p *Proxy) { p.Role, p.GroupsHeader, p.Groups = None, "X-Groups", map[string]Role{"": None} }),
		{Origins: []string{"https://Example.com:443", "http://localhost:8080", "http://[::1]:80"}},
	} {
		if _, err := New(cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestConfigErrorsComeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Config{MaxBody: -1, Proxy: &Proxy{}, Origins: []string{"*"}, Users: []User{{}}})
	for _, part := range []string{"MaxBody", "Proxy: From", "origin", "no name"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in the error %v", part, err)
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"HTTPS://Example.com:443": "https://example.com",
		"http://example.com:80":   "http://example.com",
		"http://example.com:443":  "http://example.com:443",
		"http://[::1]:80":         "http://[::1]",
		"https://[::1]":           "https://[::1]",
	} {
		if got, err := origin(in); got != want || err != nil {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abcde": "abcd…", "abcü": "abc…", "üüü": "üü…", "\xbf\xbf\xbf\xbf\xbf": "…"} {
		if got := clip(in, 4); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
