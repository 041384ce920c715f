package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/x/web/internal/encode"
)

func as(role Role) func(*http.Request) {
	return func(r *http.Request) {
		*r = *r.WithContext(WithUser(r.Context(), User{Name: "ann", Password: "p", Role: role}))
	}
}

func TestAllowByRole(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	readOnly, _ := newGuard(t, Config{ReadOnly: true})
	if g.ReadOnly() || !readOnly.ReadOnly() {
		t.Error("ReadOnly")
	}
	for role := None; role <= Admin; role++ {
		for _, v := range verbs(t) {
			for _, g := range []*Guard{g, readOnly} {
				allowed := role.May(v) && (v.reads() || !g.ReadOnly())
				r := newRequest(http.MethodPost, "/", as(role))
				reached := false
				w := httptest.NewRecorder()
				g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					reached = true
					can, err := g.Can(r, v), g.Check(r, Action{Verb: v})
					ok := g.Allow(w, r, Action{Verb: v})
					if can != allowed || (err == nil) != allowed || ok != allowed {
						t.Errorf("%v, %s, read-only %v: Can %v, Check %v, Allow %v", role, v, g.ReadOnly(), can, err, ok)
					}
					var refusal *Refusal
					if !allowed && (!errors.As(err, &refusal) || refusal.Status != http.StatusForbidden) {
						t.Errorf("%T %v", err, err)
					}
				})).ServeHTTP(w, r)
				if reached != (role != None) {
					t.Errorf("%v reached the handler: %v", role, reached)
				}
				if !allowed {
					want(t, w, http.StatusForbidden)
				}
				if reached && !allowed && strings.Contains(w.Body.String(), "read-only") != (g.ReadOnly() && !v.reads()) {
					t.Errorf("%s: %s", v, w.Body)
				}
			}
		}
	}
	want(t, serve(g, newRequest(http.MethodPost, "/", as(Admin)), Action{Verb: "task.unknown"}), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodPost, "/", as(Admin)), Action{}), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodPost, "/", as(Admin+1))), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodPost, "/", as(Viewer)), Action{Verb: QueueDelete}), http.StatusForbidden,
		"Forbidden: This requires the role admin. Your role is viewer.\n")
}

// Pages of any origin can make a browser send a GET.
func TestAllowRefusesChangesByGet(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Anonymous: Admin})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		w := serve(g, newRequest(method, "/"), Action{Verb: TaskDelete})
		want(t, w, http.StatusMethodNotAllowed)
		if w.Header().Get("Allow") != http.MethodPost {
			t.Error(w.Header())
		}
		want(t, serve(g, newRequest(method, "/"), Action{Verb: View, Queue: "q"}), http.StatusOK)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		want(t, serve(g, newRequest(method, "/"), Action{Verb: TaskDelete}), http.StatusOK)
	}
}

func TestAllowNeedsWrap(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Anonymous: Admin})
	w, r := httptest.NewRecorder(), newRequest(http.MethodPost, "/", as(Admin))
	if g.Allow(w, r, Action{Verb: View}) || g.Can(r, View) {
		t.Error("allowed")
	}
	want(t, w, http.StatusForbidden)
	if u := UserFrom(r.Context()); u != (User{}) || RequestID(r.Context()) != "" {
		t.Error(u)
	}
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Anonymous: Viewer, Users: []User{{Name: "ann", Password: "p", Role: Operator}}})
	far := from("192.0.2.1:9")
	want(t, serve(g, newRequest(http.MethodGet, "/", far)), http.StatusOK, " (viewer)")
	want(t, serve(g, newRequest(http.MethodGet, "/", far, basic("ann", "p"))), http.StatusOK, "ann (operator)")
	want(t, serve(g, newRequest(http.MethodGet, "/", far, basic("ann", "q"))), http.StatusUnauthorized)
	w := serve(g, newRequest(http.MethodPost, "/", far), Action{Verb: TaskRun})
	want(t, w, http.StatusUnauthorized)
	if w.Header().Get("WWW-Authenticate") != `Basic realm="asynq", charset="UTF-8"` {
		t.Error(w.Header())
	}
	// A logged-in user is refused without a new login prompt.
	want(t, serve(g, newRequest(http.MethodPost, "/", far, basic("ann", "p")), Action{Verb: QueueDelete}), http.StatusForbidden)

	g, _ = newGuard(t, Config{Anonymous: Viewer})
	want(t, serve(g, newRequest(http.MethodPost, "/", far), Action{Verb: TaskRun}), http.StatusForbidden)
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	var asked []Action
	authorize := func(r *http.Request, a Action) error {
		asked = append(asked, a)
		switch {
		case r.Header.Get("X-Token") == "":
			return fmt.Errorf("no token: %w", ErrUnauthenticated)
		case a.Queue == "secret":
			return errors.New("not <that> one")
		}
		return nil
	}
	secret := Action{Verb: TaskRun, Queue: "secret", TaskID: "a\nb"}
	g, _ := newGuard(t, Config{Authorize: authorize})
	far := from("192.0.2.1:9")
	w := serve(g, newRequest(http.MethodGet, "/", far))
	want(t, w, http.StatusUnauthorized, "Unauthorized: no token: login required\n")
	if w.Header().Get("WWW-Authenticate") == "" {
		t.Error("no challenge")
	}
	token := header("X-Token", "1")
	want(t, serve(g, newRequest(http.MethodPost, "/", far, token), Action{Verb: QueueDelete}), http.StatusOK, " (admin)")
	want(t, serve(g, newRequest(http.MethodPost, "/", far, token), secret), http.StatusForbidden, "Forbidden: not <that> one\n")
	if len(asked) != 5 || asked[2].Verb != QueueDelete || asked[3].Verb != View || asked[4] != secret {
		t.Errorf("asked %v", asked)
	}
	w = serve(g, newRequest(http.MethodPost, "/", far, token, header("Accept", "text/html")), secret)
	if !strings.Contains(w.Body.String(), "not &lt;that&gt; one") {
		t.Error(w.Body)
	}

	// Authorize cannot permit more than the role.
	asked = nil
	g, _ = newGuard(t, Config{Authorize: authorize, ReadOnly: true, Users: []User{{Name: "ann", Password: "p", Role: Viewer}}})
	want(t, serve(g, newRequest(http.MethodGet, "/", token)), http.StatusUnauthorized)
	if len(asked) != 0 {
		t.Errorf("Authorize was called with %v before the login", asked)
	}
	want(t, serve(g, newRequest(http.MethodGet, "/", token, basic("ann", "p"))), http.StatusOK, "ann (viewer)")
	want(t, serve(g, newRequest(http.MethodPost, "/", token, basic("ann", "p")), secret), http.StatusForbidden)
	if len(asked) != 2 {
		t.Errorf("asked %v", asked)
	}
}

func TestWithUser(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{{Name: "bob", Password: "p", Role: Admin}}})
	far := from("192.0.2.1:9")
	want(t, serve(g, newRequest(http.MethodGet, "/", far, as(Operator), basic("bob", "p"))), http.StatusOK, "ann (operator)")
	want(t, serve(g, newRequest(http.MethodGet, "/", far, as(99))), http.StatusForbidden, "Forbidden: User \"ann\" has no role.\n")
	want(t, serve(g, newRequest(http.MethodGet, "/", far, as(None))), http.StatusForbidden, "Forbidden: User \"ann\" has no role.\n")
}

func TestUserFromHasNoPassword(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{{Name: "bob", Password: "p", Role: Admin}}})
	for _, edit := range []func(*http.Request){as(Admin), basic("bob", "p")} {
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if u := UserFrom(r.Context()); u.Name == "" || u.Role != Admin || u.Password != "" {
				t.Errorf("%v, password %q", u, u.Password)
			}
		})).ServeHTTP(httptest.NewRecorder(), newRequest(http.MethodGet, "/", edit))
	}
}

func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{MaxBody: 1000})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			BadBody(w, r, err)
			return
		}
		fmt.Fprint(w, len(b))
	})
	s := httptest.NewServer(encode.Wrap(g.Wrap(mux))) // as the Handler wraps it
	defer s.Close()
	for _, tc := range []struct {
		n       int
		chunked bool
		status  int
	}{{0, false, 200}, {1000, false, 200}, {1001, false, 413}, {1 << 20, false, 413}, {1000, true, 200}, {1001, true, 413}, {1 << 20, true, 413}} {
		var body io.Reader = strings.NewReader(strings.Repeat("x", tc.n))
		if tc.chunked {
			body = io.MultiReader(body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/x", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatalf("%+v: %v", tc, err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tc.status || tc.status == http.StatusOK && string(b) != fmt.Sprint(tc.n) {
			t.Errorf("%+v: %s %s", tc, resp.Status, b)
		}
		if tc.status != http.StatusOK && (resp.Header.Get("Content-Type") != "application/problem+json" || !resp.Close) {
			t.Errorf("%+v: %v", tc, resp.Header)
		}
	}
	// If the length is declared, the handler is not called.
	w := serve(g, newRequest(http.MethodPost, "/", func(r *http.Request) { r.ContentLength, r.Body = 1001, io.NopCloser(failingReader{t}) }))
	want(t, w, http.StatusRequestEntityTooLarge)
	if w.Header().Get("Connection") != "close" {
		t.Error(w.Header())
	}
	if g, _ := newGuard(t, Config{}); g.cfg.MaxBody != 8<<20 {
		t.Error(g.cfg.MaxBody)
	}
}

// Users without access learn nothing about bodies, and no body is read.
func TestBodyWithoutAccess(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{MaxBody: 10})
	w := serve(g, newRequest(http.MethodPost, "/", from("192.0.2.1:9"), func(r *http.Request) {
		r.ContentLength, r.Body = 100, io.NopCloser(failingReader{t})
	}))
	want(t, w, http.StatusForbidden)
}

type failingReader struct{ t *testing.T }

func (f failingReader) Read([]byte) (int, error) {
	f.t.Error("the body was read")
	return 0, io.EOF
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	for in, kept := range map[string]bool{"": false, "abc-DEF_1.2": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false, "a\"b": false, "ü": false} {
		var seen string
		w := httptest.NewRecorder()
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = RequestID(r.Context()) })).
			ServeHTTP(w, newRequest(http.MethodGet, "/", header("X-Request-ID", in)))
		if (seen == in) != kept || len(seen) < 3 || w.Header().Get("X-Request-Id") != seen {
			t.Errorf("%q: %q, answered %q", in, seen, w.Header())
		}
	}
}
