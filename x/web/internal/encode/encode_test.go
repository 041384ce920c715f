package encode

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var long = strings.Repeat("a long text. ", 100)

// ask sends a request with headers: pairs of names and values.
func ask(t *testing.T, next http.HandlerFunc, method string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Wrap(next).ServeHTTP(w, r)
	return w.Result()
}

// text returns the body of a response, unpacked.
func text(t *testing.T, r *http.Response) string {
	t.Helper()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = unpacked
	}
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sends returns a handler that sends a body in pieces.
func sends(body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		for rest := body; rest != ""; {
			n := min(len(rest), 100)
			_, _ = io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
	}
}

// Texts are compressed for clients that accept it, unless the response is short, encoded already,
// or for another site.
func TestCompression(t *testing.T) {
	t.Parallel()
	const kind, accept = "Content-Type", "Accept-Encoding"
	for name, c := range map[string]struct {
		next    http.HandlerFunc
		method  string
		headers []string
		body    string
		packed  bool
		vary    bool
	}{
		"page":             {sends(long, kind, "text/html; charset=utf-8", "Content-Length", "1300"), "GET", []string{accept, "gzip, br"}, long, true, true},
		"answer to a form": {sends(long, kind, "text/html"), "POST", []string{accept, "*"}, long, true, true},
		"sniffed":          {sends("<!doctype html>" + long), "GET", []string{accept, "gzip"}, "<!doctype html>" + long, true, true},
		"JSON":             {sends(long, kind, "application/json"), "GET", []string{accept, "gzip"}, long, true, true},
		"problem":          {sends(long, kind, "application/problem+json"), "GET", []string{accept, "gzip"}, long, true, true},
		"own page":         {sends(long, kind, "text/html"), "GET", []string{accept, "gzip", "Sec-Fetch-Site", "same-origin"}, long, true, true},
		"other site":       {sends(long, kind, "text/html"), "GET", []string{accept, "gzip", "Sec-Fetch-Site", "cross-site"}, long, false, true},
		"same site":        {sends(long, kind, "text/html"), "GET", []string{accept, "gzip", "Sec-Fetch-Site", "same-site"}, long, false, true},
		"not accepted":     {sends(long, kind, "text/html"), "GET", nil, long, false, true},
		"refused":          {sends(long, kind, "text/html"), "GET", []string{accept, "gzip;q=0, *;q=1"}, long, false, true},
		"short":            {sends("short", kind, "text/html"), "GET", []string{accept, "gzip"}, "short", false, true},
		"image":            {sends(long, kind, "image/png"), "GET", []string{accept, "gzip"}, long, false, false},
		"stream":           {sends(long, kind, "text/event-stream"), "GET", []string{accept, "gzip"}, long, false, false},
		"packed already":   {sends(long, kind, "text/css", "Content-Encoding", "br"), "GET", []string{accept, "gzip"}, long, false, true},
		"exact tag":        {sends(long, kind, "application/json", "ETag", `"1"`), "GET", []string{accept, "gzip"}, long, false, true},
		"weak tag":         {sends(long, kind, "application/json", "ETag", `W/"1"`), "GET", []string{accept, "gzip"}, long, true, true},
		"own Vary":         {sends(long, kind, "text/css", "Vary", "Accept-Encoding"), "GET", []string{accept, "gzip"}, long, true, true},
		"HEAD":             {sends(long, kind, "text/html"), "HEAD", []string{accept, "gzip"}, long, false, true},
	} {
		r := ask(t, c.next, c.method, c.headers...)
		if packed := r.Header.Get("Content-Encoding") == "gzip"; packed != c.packed || packed && r.Header.Get("Content-Length") != "" {
			t.Errorf("%s: %v", name, r.Header)
		}
		if vary := strings.Contains(strings.Join(r.Header.Values("Vary"), ","), "Accept-Encoding"); vary != c.vary || len(r.Header.Values("Vary")) > 1 {
			t.Errorf("%s: Vary %q", name, r.Header.Values("Vary"))
		}
		if body := text(t, r); r.Header.Get("Content-Encoding") != "br" && body != c.body {
			t.Errorf("%s: another body: %q", name, body)
		}
	}
}

// The length of a compressed response varies, so that it does not show what its texts have in
// common.
func TestRandomLength(t *testing.T) {
	t.Parallel()
	lengths := map[int64]bool{}
	for range 50 {
		r := ask(t, sends(long, "Content-Type", "text/html"), "GET", "Accept-Encoding", "gzip")
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Fatal(err)
		}
		lengths[n] = true
	}
	if len(lengths) < 10 {
		t.Errorf("%d lengths of 50 responses", len(lengths))
	}
}

func TestRevalidation(t *testing.T) {
	t.Parallel()
	list := sends(long, "Content-Type", "application/json")
	r := ask(t, list, "GET")
	tag := r.Header.Get("ETag")
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("%d, ETag %q", r.StatusCode, tag)
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			list(w, r)
		}
	}
	large := sends(strings.Repeat("1", most+1), "Content-Type", "application/json")
	for name, c := range map[string]struct {
		next          http.HandlerFunc
		method, known string
		want          int
		tag           bool
	}{
		"same":           {list, "GET", tag, 304, true},
		"one of several": {list, "GET", `"x", ` + strings.TrimPrefix(tag, "W/"), 304, true},
		"any":            {list, "GET", "*", 304, true},
		"other":          {list, "GET", `W/"x"`, 200, true},
		"change":         {list, "POST", tag, 200, false},
		"error":          {status(404), "GET", tag, 404, false},
		"page":           {sends(long, "Content-Type", "text/html"), "GET", tag, 200, false},
		"own tag":        {sends(long, "Content-Type", "application/json", "ETag", `"1"`), "GET", `"1"`, 200, true},
		"large":          {large, "GET", "*", 200, false},
	} {
		r := ask(t, c.next, c.method, "If-None-Match", c.known, "Accept-Encoding", "gzip")
		if r.StatusCode != c.want || (r.Header.Get("ETag") != "") != c.tag {
			t.Errorf("%s: %d, ETag %q", name, r.StatusCode, r.Header.Get("ETag"))
		}
		if body := text(t, r); (body == "") != (c.want == 304) {
			t.Errorf("%s: %d bytes", name, len(body))
		}
	}
	if other := ask(t, sends(long+"!", "Content-Type", "application/json"), "GET").Header.Get("ETag"); other == tag {
		t.Error("two responses have one ETag")
	}
}

// Statuses without a body and empty responses pass through. The first status counts.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, next := range map[int]http.HandlerFunc{
		200: func(http.ResponseWriter, *http.Request) {},
		204: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		303: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusSeeOther) },
		500: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "failed", http.StatusInternalServerError)
			w.WriteHeader(http.StatusOK)
		},
	} {
		if r := ask(t, next, "POST", "Accept-Encoding", "gzip"); r.StatusCode != status || r.Header.Get("Content-Encoding") != "" {
			t.Errorf("%d: %d %v", status, r.StatusCode, r.Header)
		}
	}
}

// A flush sends what was written, and a panic does not send what was held back.
func TestFlushAndPanic(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	s := httptest.NewServer(Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("kind"))
		w.WriteHeader(http.StatusEarlyHints) // is not the status of the response
		_, _ = io.WriteString(w, "first\n")
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-next
		_, _ = io.WriteString(w, "second\n")
	})))
	defer s.Close()
	for _, kind := range []string{"text/plain", "text/event-stream"} {
		r, err := s.Client().Get(s.URL + "/?kind=" + kind)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(r.Body)
		if !lines.Scan() || lines.Text() != "first" || r.Uncompressed != (kind == "text/plain") {
			t.Errorf("%s: %q, compressed %v", kind, lines.Text(), r.Uncompressed)
		}
		next <- struct{}{}
		if !lines.Scan() || lines.Text() != "second" {
			t.Errorf("%s: then %q: %v", kind, lines.Text(), lines.Err())
		}
		_ = r.Body.Close()
	}
	if r, err := s.Client().Get(s.URL + "/panic?kind=text/plain"); err == nil {
		_ = r.Body.Close()
		t.Errorf("an answer of a handler that panicked: %d", r.StatusCode)
	}
}
