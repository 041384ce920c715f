package openid

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/asynq-go/asynq/x/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idp is a provider. Its tokens have the claims that the test sets.
type idp struct {
	*httptest.Server
	key       *rsa.PrivateKey
	down      atomic.Bool
	challenge string // of the last login
	claims    map[string]any
	sign      func([]byte) []byte // nil: with key
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func newIDP(t *testing.T) *idp {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if p.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint": p.URL + "/logout?a=b", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		if r.FormValue("code") != "good" || encode(sum[:]) != p.challenge || id != "queues" || secret != "hush" {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		header, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": "1"})
		claims, _ := json.Marshal(p.claims)
		text := encode(header) + "." + encode(claims)
		sum = sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
		if err != nil {
			t.Error(err)
		}
		if p.sign != nil {
			signature = p.sign(signature)
		}
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": text + "." + encode(signature)})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *idp) config() Config {
	return Config{
		Issuer: p.URL, ClientID: "queues", Secret: "hush", RedirectURL: "https://ops.example.com/login/callback", Scopes: []string{"email"}, Client: p.Client(),
		RoleClaim: "groups", Roles: map[string]web.Role{"ops": web.Operator, "sre": web.Admin, "gone": web.None}, Role: web.Viewer,
	}
}

// begin begins a login, after which the provider issues tokens for it, and returns the query of the
// provider's login page.
func (p *idp) begin(t *testing.T, provider *Provider, l web.ProviderLogin, claims map[string]any) url.Values {
	t.Helper()
	to, err := provider.LoginURL(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, p.URL+"/authorize?") {
		t.Fatal(to, err)
	}
	p.challenge = u.Query().Get("code_challenge")
	p.claims = map[string]any{
		"iss": p.URL, "aud": "queues", "sub": "17", "nonce": l.Nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	for claim, value := range claims {
		p.claims[claim] = value
	}
	return u.Query()
}

var login = web.ProviderLogin{State: "the-state", Nonce: "the-nonce", Verifier: strings.Repeat("v", 43)}

func TestLogin(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	provider, err := New(p.config())
	if err != nil {
		t.Fatal(err)
	}
	if to := provider.LogoutURL(); to != "" || provider.Name() != strings.TrimPrefix(p.URL, "http://") {
		t.Errorf("at first %q, %q", to, provider.Name())
	}
	query := p.begin(t, provider, login, nil)
	for name, want := range map[string]string{
		"client_id": "queues", "redirect_uri": "https://ops.example.com/login/callback", "response_type": "code", "scope": "openid email",
		"state": "the-state", "nonce": "the-nonce", "code_challenge_method": "S256",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if to := provider.LogoutURL(); to != p.URL+"/logout?a=b&client_id=queues" {
		t.Errorf("the log-out is at %q", to)
	}
	code := url.Values{"code": {"good"}}
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"no groups":        {nil, "17 (viewer)"},
		"two groups":       {map[string]any{"groups": []string{"ops", "sre", "x"}, "preferred_username": "ann"}, "ann (admin)"},
		"a text":           {map[string]any{"groups": "ops", "email": "ann@example.com"}, "ann@example.com (operator)"},
		"verified email":   {map[string]any{"email": "ann@example.com", "email_verified": true}, "ann@example.com (viewer)"},
		"unverified email": {map[string]any{"email": "ann@example.com", "email_verified": false}, "17 (viewer)"},
		"group without":    {map[string]any{"groups": []string{"gone"}}, "17 (none)"},
		"other types":      {map[string]any{"groups": []any{1, nil, "ops"}}, "17 (operator)"},
	} {
		p.begin(t, provider, login, c.claims)
		u, err := provider.User(t.Context(), login, code)
		if err != nil || u.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", name, u, err, c.want)
		}
	}
}

func TestLoginIsRefused(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	provider, err := New(p.config())
	if err != nil {
		t.Fatal(err)
	}
	other := login
	other.Verifier = strings.Repeat("w", 43)
	for name, c := range map[string]struct {
		claims map[string]any
		login  web.ProviderLogin
		code   string
		sign   func([]byte) []byte
		want   string
	}{
		"bad code":        {nil, login, "bad", nil, "exchanging the code"},
		"other verifier":  {nil, other, "good", nil, "exchanging the code"},
		"other nonce":     {map[string]any{"nonce": "x"}, login, "good", nil, "nonce"},
		"no nonce":        {map[string]any{"nonce": ""}, login, "good", nil, "nonce"},
		"other audience":  {map[string]any{"aud": "x"}, login, "good", nil, "audience"},
		"other issuer":    {map[string]any{"iss": "https://evil.example.com"}, login, "good", nil, "issue"},
		"expired":         {map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, login, "good", nil, "expired"},
		"other signature": {nil, login, "good", func(s []byte) []byte { s[0] ^= 1; return s }, "verif"},
		"no name":         {map[string]any{"sub": 17}, login, "good", nil, ""},
	} {
		p.begin(t, provider, login, c.claims)
		p.sign = c.sign
		if u, err := provider.User(t.Context(), c.login, url.Values{"code": {c.code}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want an error with %q", name, u, err, c.want)
		}
	}
}

func TestNestedGroupsAndNames(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	cfg := p.config()
	cfg.RoleClaim, cfg.NameClaim = "realm_access.roles", "login"
	provider, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.begin(t, provider, login, map[string]any{"realm_access": map[string]any{"roles": []string{"sre"}}, "login": "ann"})
	if u, err := provider.User(t.Context(), login, url.Values{"code": {"good"}}); err != nil || u.String() != "ann (admin)" {
		t.Errorf("%v, %v", u, err)
	}
	p.begin(t, provider, login, map[string]any{"realm_access.roles": "ops", "preferred_username": "ann"})
	if u, err := provider.User(t.Context(), login, url.Values{"code": {"good"}}); err == nil || !strings.Contains(err.Error(), "no claim login") || u.Role != web.Operator {
		t.Errorf("%v, %v", u, err)
	}
}

// A provider that is down at the start is used when it is back.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.down.Store(true)
	provider, err := New(p.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Discover(t.Context()); err == nil || !strings.Contains(err.Error(), p.URL) {
		t.Errorf("error %v", err)
	}
	if _, err := provider.LoginURL(t.Context(), login); err == nil {
		t.Error("a login begins without the provider")
	}
	if _, err := provider.User(t.Context(), login, nil); err == nil {
		t.Error("a login ends without the provider")
	}
	p.down.Store(false)
	if err := provider.Discover(t.Context()); err != nil {
		t.Error(err)
	}
	cfg := p.config()
	cfg.Issuer += "/other"
	if other, err := New(cfg); err != nil || other.Discover(t.Context()) == nil {
		t.Error("another issuer is accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	valid := Config{Issuer: "https://id.example.com", ClientID: "a", RedirectURL: "http://localhost:8080/login/callback", Role: web.Viewer}
	if _, err := New(valid); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"issuer is missing":    func(c *Config) { c.Issuer = "" },
		"must use https":       func(c *Config) { c.Issuer = "http://id.example.com" },
		"not a URL":            func(c *Config) { c.Issuer = "id" },
		"redirect URL is":      func(c *Config) { c.RedirectURL = "" },
		"client ID":            func(c *Config) { c.ClientID = "" },
		"claim with the group": func(c *Config) { c.Roles = map[string]web.Role{"a": web.Admin} },
		"no user would have":   func(c *Config) { c.Role = web.None },
	} {
		cfg := valid
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
