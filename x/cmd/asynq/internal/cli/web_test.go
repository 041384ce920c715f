package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web"
)

// serveWeb runs the web UI until stop is called. stop returns its exit code and standard error.
func (w *world) serveWeb(args ...string) (url string, stop func() (int, string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	listening, code := make(chan struct{}), make(chan int, 1)
	stderr := newSignalWriter("the web UI is at", 1, sync.OnceFunc(func() { close(listening) }))
	args = append([]string{"web", "--namespace", w.namespace}, args...)
	go func() {
		code <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr, Env: func(name string) (string, bool) {
			v, ok := w.env[name]
			return v, ok
		}})
	}()
	stop = func() (int, string) {
		cancel()
		return <-code, stderr.String()
	}
	select {
	case <-listening:
	case c := <-code:
		cancel()
		w.t.Fatalf("the web UI exited with %d: %s", c, stderr)
	}
	w.link = regexp.MustCompile(`https?://\S+`).FindString(stderr.String())
	page, _, _ := strings.Cut(w.link, "?")
	return strings.TrimSuffix(page, "/"), stop
}

// pause pauses queue mail through a page or an API, with the given headers.
func pause(t *testing.T, url string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("queue=mail&do=pause"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Local connections may view. The printed link signs in one browser, and the token of --token signs
// in scripts.
func TestWebSignIn(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	const token = "a-token-for-scripts"
	w.env["ASYNQ_WEB_TOKEN"] = token
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0")
	if code, body := pause(t, url+"/api/queues/mail:pause"); code != http.StatusForbidden || !strings.Contains(body, "asynq web") {
		t.Errorf("a change without a token: %d %s", code, body)
	}
	for range 2 {
		if code, body := pause(t, url+"/api/queues/mail:pause", "Authorization", "Bearer "+token); code != http.StatusNoContent && code != http.StatusConflict && code != http.StatusInternalServerError {
			t.Errorf("a change with the token: %d %s", code, body)
		}
	}
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, token) || strings.Contains(w.link, "token") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
	if info, err := w.inspector.GetQueueInfo("mail"); err != nil || !info.Paused {
		t.Errorf("the queue is %+v, %v", info, err)
	}

	delete(w.env, "ASYNQ_WEB_TOKEN")
	url, stop = w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--root-path", "/q")
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/q/\?token=[A-Z2-7]{26}$`).MatchString(w.link) {
		t.Errorf("the link is %q", w.link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Jar: jar}).Get(w.link)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.String() != url+"/" {
		t.Errorf("the link leads to %s: %s", resp.Request.URL, resp.Status)
	}
	if code, _ := ask(t, w.link, "", ""); code != http.StatusForbidden {
		t.Errorf("the link works twice: %d", code)
	}
	cookies := jar.Cookies(resp.Request.URL)
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	if code, _ := pause(t, url+"/queue", "Cookie", cookies[0].String()); code != http.StatusOK {
		t.Errorf("a change after signing in: %d", code)
	}
	if code, stderr := stop(); code != ExitDone || strings.Count(stderr, w.link) != 1 {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
}

// ask sends a request with headers and, if the user name is not empty, with basic authentication.
func ask(t *testing.T, url, user, password string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestWeb(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--root-path", "/q", "--enable-metrics-exporter")
	base := strings.TrimSuffix(url, "/q")
	if code, body := ask(t, url+"/queues", "", ""); code != http.StatusOK || !strings.Contains(body, "reports") {
		t.Errorf("/q/queues: %d\n%s", code, body)
	}
	if code, body := ask(t, base+"/", "", ""); code != http.StatusOK || !strings.Contains(body, "/q/static/") {
		t.Errorf("the root does not lead to the UI: %d\n%s", code, body)
	}
	if code, body := ask(t, base+"/healthz", "", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := ask(t, url+"/metrics", "", ""); code != http.StatusOK || !strings.Contains(body, `asynq_queue_size{queue="mail"}`) {
		t.Errorf("/q/metrics: %d\n%s", code, body)
	}
	// An event stream does not prevent shutdown.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("/events: %s %v", resp.Status, resp.Header)
	}
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream did not end cleanly: %v", err)
	}
}

func TestWebAccess(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	file := filepath.Join(w.home, "users")
	if err := os.WriteFile(file, []byte("# viewers\n\nvera:viewer:a:b\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["ASYNQ_WEB_USER"] = "ada:admin:secret\nolga:operator:other"
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--users-file", file, "--enable-metrics-exporter",
		"--trusted-proxy", "127.0.0.0/8", "--user-header", "X-User", "--role-header", "X-Role")
	for _, c := range []struct {
		path, user, password string
		headers              []string
		want                 int
	}{
		{"/queues", "", "", nil, http.StatusUnauthorized},
		{"/metrics", "", "", nil, http.StatusUnauthorized},
		{"/healthz", "", "", nil, http.StatusOK},
		{"/queues", "vera", "a:b", nil, http.StatusOK},
		{"/metrics", "vera", "a:b", nil, http.StatusOK},
		{"/queues", "vera", "a", nil, http.StatusUnauthorized},
		{"/queues", "ada", "secret", nil, http.StatusOK},
		{"/queues", "olga", "other", nil, http.StatusOK},
		{"/queues", "", "", []string{"X-User", "paul", "X-Role", "viewer"}, http.StatusOK},
		{"/queues", "", "", []string{"X-User", "paul"}, http.StatusForbidden},
	} {
		if code, _ := ask(t, url+c.path, c.user, c.password, c.headers...); code != c.want {
			t.Errorf("%s as %q %v: %d, want %d", c.path, c.user, c.headers, code, c.want)
		}
	}
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "secret") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
}

// Invalid changes of the users file leave the previous users, and are logged without passwords.
func TestReloadUsers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	write := func(users string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vera:viewer:first\n")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &webFlags{file: file, users: []string{"ada:admin:all"}, ui: web.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		if err := w.access(); err != nil {
			t.Fatal(err)
		}
		var got []web.User
		set := func(users []web.User) error {
			if len(users) == 1 {
				return errors.New("too few")
			}
			got = users
			return nil
		}
		for _, c := range []struct{ content, users, log string }{
			{"vera:viewer:secret1\notto:operator:secret2\n", "[ada (admin) vera (viewer) otto (operator)]", `msg="users file reloaded"`},
			{"vera:boss:secret-of-vera\n", "[]", "invalid role of user"},
			{"# nobody\n", "[]", "too few"},
			{"vera:operator:secret-of-vera2\n", "[ada (admin) vera (operator)]", `msg="users file reloaded"`},
		} {
			got = nil
			log.Reset()
			write(c.content)
			for range 3 {
				time.Sleep(2 * time.Second)
				w.reloadUsers(set)
			}
			if fmt.Sprint(got) != c.users || !strings.Contains(log.String(), c.log) || strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "secret") {
				t.Errorf("%q: users %v, want %s, logged %s", c.content, got, c.users, &log)
			}
		}
	})
}

// Changes of the users file take effect while the web UI runs.
func TestWebUsersFile(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	file := filepath.Join(w.home, "users")
	write := func(users string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vera:viewer:first\n")
	audit := filepath.Join(w.home, "audit.jsonl")
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--users-file", file, "--user", "ada:admin:all", "--audit-file", audit)
	status := func(user, password string) int {
		code, _ := ask(t, url+"/queues", user, password)
		return code
	}
	if code := status("vera", "first"); code != http.StatusOK {
		t.Errorf("at first: %d", code)
	}
	write("vera:viewer:second\notto:operator:do\n")
	proctest.Eventually(t, "the new users", func() bool { return status("otto", "do") == http.StatusOK })
	if old, changed, flag := status("vera", "first"), status("vera", "second"), status("ada", "all"); old != http.StatusUnauthorized || changed != http.StatusOK || flag != http.StatusOK {
		t.Errorf("after the change: %d, %d, %d", old, changed, flag)
	}
	if code, _ := pause(t, url+"/api/queues/mail:pause", "Authorization", "Basic YWRhOmFsbA=="); code != http.StatusNoContent {
		t.Errorf("a change: %d", code)
	}
	if line, err := os.ReadFile(audit); err != nil || !strings.Contains(string(line), `"user":"ada"`) || !strings.Contains(string(line), `"action":"queue.pause"`) {
		t.Errorf("the audit file has %q, %v", line, err)
	}
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "secret") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
}

// The flags and variables of the existing web UI work.
func TestWebAliases(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.env = map[string]string{"REDIS_ADDR": redisAddr, "REDIS_DB": "0", "READ_ONLY": "true", "PORT": "0", "MAX_PAYLOAD_LENGTH": "10"}
	url, stop := w.serveWeb()
	code, body := ask(t, url+"/queues", "", "")
	if code != http.StatusOK || !strings.Contains(body, "mail") || !strings.Contains(body, "127.0.0.1") && !strings.Contains(url, "127.0.0.1") {
		t.Errorf("%s: %d\n%s", url, code, body)
	}
	resp, err := http.Post(url+"/queue?queue=mail", "application/x-www-form-urlencoded", strings.NewReader("do=pause"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a change with READ_ONLY=true: %s", resp.Status)
	}
	if code, stderr := stop(); code != ExitDone {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
	// Native names take precedence over aliases, and flags over variables.
	w.env["REDIS_ADDR"] = "127.0.0.1:1"
	for _, own := range [][]string{{"--uri", redisAddr}, {"--redis-url", "redis://" + redisAddr}} {
		url, stop = w.serveWeb(own...)
		if code, body := ask(t, url+"/queues", "", ""); code != http.StatusOK || !strings.Contains(body, "reports") {
			t.Errorf("%v: %d\n%s", own, code, body)
		}
		_, _ = stop()
	}
}

func TestWebRejectsFlags(t *testing.T) {
	w := newWorld(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	file := filepath.Join(w.home, "users")
	if err := os.WriteFile(file, []byte("ada:admin:secret\nvera:guest:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		err  string
	}{
		{"--port 1 --listen 127.0.0.1:1", ExitUsage, "mutually exclusive"},
		{"--redis-addr a --redis-url b", ExitUsage, "use only one"},
		{"--redis-addr a --uri b", ExitUsage, "use only one"},
		{"--listen :0", ExitUsage, "--anonymous viewer"},
		{"--listen 0.0.0.0:0 --trusted-proxy 127.0.0.1", ExitUsage, "--users-file FILE"},
		{"--listen [::]:0 --anonymous none", ExitUsage, "--users-file FILE"},
		{"--user ada:secret", ExitUsage, "NAME:ROLE:PASSWORD"},
		{"--user ada:none:secret", ExitUsage, "viewer, operator or admin"},
		{"--user ada:secret:admin", ExitUsage, "viewer, operator or admin"},
		{"--users-file " + file, ExitUsage, "users, line 2: "},
		{"--users-file /does/not/exist", ExitUsage, "no such file"},
		{"--anonymous boss", ExitUsage, "unknown role"},
		{"--user-header X-User", ExitUsage, "require --trusted-proxy"},
		{"--trusted-proxy nowhere --user-header X-User --proxy-role viewer", ExitUsage, "nowhere"},
		{"--allow-origin *", ExitUsage, "origin"},
		{"--root-path queues", ExitUsage, "slash"},
		{"--token secret", ExitUsage, "at least 16 characters"},
		{"--token long-enough-secret --anonymous viewer", ExitUsage, "Token"},
		{"--poll-interval -1s", ExitUsage, "PollInterval"},
		{"--session-idle -1s", ExitUsage, "SessionIdle"},
		{"--audit-file /does/not/exist", ExitUsage, "AuditFile"},
		{"--listen-cert none", ExitFailed, "no such file"},
		{"too many", ExitUsage, "unexpected argument"},
		{"--listen " + taken.Addr().String(), ExitFailed, "in use"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an accepted command would serve forever
		r := w.raw(ctx, append([]string{"web"}, strings.Fields(c.args)...)...)
		cancel()
		if r.code != c.code || r.out != "" || !strings.Contains(r.err, c.err) || strings.Contains(r.err, "secret") {
			t.Errorf("web %s: got %+v, want code %d and %q", c.args, r, c.code, c.err)
		}
	}
	w.env["ASYNQ_WEB_THRESHOLD"] = "wait_notice=2m\nwait_warning=soon" // one a line
	if r := w.raw(t.Context(), "web"); r.code != ExitUsage || !strings.Contains(r.err, `wait_warning: "soon" is not a duration`) {
		t.Errorf("the second threshold of the environment: exit code %d, %s", r.code, r.err)
	}
	delete(w.env, "ASYNQ_WEB_THRESHOLD")
	w.env["ASYNQ_WEB_POLL_INTERVAL"] = "secret"
	if r := w.raw(t.Context(), "web"); r.code != ExitUsage || !strings.Contains(r.err, "ASYNQ_WEB_POLL_INTERVAL") || strings.Contains(r.err, "secret") {
		t.Errorf("a variable that is not a duration: %+v", r)
	}
}

func TestShortText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []byte
		n    int
		want string
	}{
		{[]byte("grün"), 4, "grün"},
		{[]byte("grün"), 3, "grü…"},
		{[]byte{0xff, 0, 1}, 4, "ff00…"},
		{bytes.Repeat([]byte("a"), 300), 2, "aa…"},
		{nil, 1, ""},
	} {
		if got := shortText(c.in, c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
