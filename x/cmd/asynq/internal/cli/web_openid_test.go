package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The login page leads to the provider, which may be unreachable at first.
func TestWebOpenID(t *testing.T) {
	w := newWorld(t)
	var up atomic.Bool
	var idp *httptest.Server
	idp = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() || r.URL.Path != "/.well-known/openid-configuration" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(strings.ReplaceAll(`{"issuer":"URL","authorization_endpoint":"URL/authorize","token_endpoint":"URL/token","jwks_uri":"URL/keys"}`, "URL", idp.URL)))
	}))
	t.Cleanup(idp.Close)
	secret := filepath.Join(w.home, "secret")
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["ASYNQ_WEB_OIDC_ROLE"] = "ops=operator\nsre=admin"
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--root-path", "/q", "--oidc-issuer", idp.URL, "--oidc-client-id", "queues",
		"--oidc-secret-file", secret, "--oidc-redirect-url", "https://ops.example.com/q/login/callback", "--oidc-label", "Example")
	if code, body := ask(t, url+"/queues", "", "", "Accept", "text/html"); code != http.StatusOK || !strings.Contains(body, "Log in with Example") {
		t.Errorf("the login page: %d %s", code, body)
	}
	if code, _ := ask(t, url+"/login/provider", "", ""); code != http.StatusBadGateway {
		t.Errorf("without the provider: %d", code)
	}
	up.Store(true)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(url + "/login/provider")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if to := resp.Header.Get("Location"); !strings.HasPrefix(to, idp.URL+"/authorize?client_id=queues&") || !strings.Contains(to, "code_challenge_method=S256") {
		t.Errorf("the login is at %q", to)
	}
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "hush") || !strings.Contains(stderr, "unreachable") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
	const valid = "--oidc-issuer https://id.example.com --oidc-client-id a --oidc-redirect-url https://a/login/callback "
	for args, want := range map[string]string{
		"--oidc-client-id a": "require --oidc-issuer", valid: "no user would have a role", valid + "--oidc-role ops": "GROUP=ROLE",
		valid + "--oidc-role ops=boss": "unknown role", valid + "--oidc-default-role boss": "unknown role",
		valid + "--oidc-default-role viewer --oidc-secret-file /does/not/exist":           "no such file",
		valid + "--oidc-default-role viewer --root-path /q":                               "/q/login/callback",
		"--oidc-issuer http://id.example.com --oidc-client-id a --oidc-default-role none": "must use https",
	} {
		delete(w.env, "ASYNQ_WEB_OIDC_ROLE")
		if r := w.raw(t.Context(), append([]string{"web"}, strings.Fields(args)...)...); r.code != ExitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
}
