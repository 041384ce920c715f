package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// Problem responds with an error in the format that the client expects: application/problem+json
// (RFC 9457) for paths under /api and for clients that accept JSON, an HTML page for browsers, and
// a line of text for all others. The title is short and the same for all errors of a kind; if
// empty, it is the text of the status. The detail describes the error and what to do; it may be
// empty.
//
// Problem removes the headers of the original response, such as ETag. Nothing may have been written
// before.
func Problem(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
	if title == "" {
		title = http.StatusText(status)
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Content-Range", "ETag", "Last-Modified", "Expires"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	q := of(r.Context())
	switch {
	case q.api || q.guard == nil && strings.HasPrefix(r.URL.Path, "/api/") || prefersJSON(r.Header):
		h.Set("Content-Type", "application/problem+json")
		body, _ := json.Marshal(struct { // cannot fail: strings and a number
			Title   string `json:"title"`
			Status  int    `json:"status"`
			Detail  string `json:"detail,omitempty"`
			Request string `json:"request_id,omitempty"`
		}{title, status, detail, q.id})
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n'))
	case r.Header.Get("HX-Request") == "" && accepts(r.Header, html...) == 0:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		text := title
		if detail != "" {
			text += ": " + detail
		}
		_, _ = fmt.Fprintln(w, text)
	case q.guard != nil && q.guard.cfg.Page != nil && q.user.Role.May(View):
		h.Set("Content-Type", "text/html; charset=utf-8")
		q.guard.cfg.Page(w, r, status, title, detail)
	default:
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", errorPolicy)
		w.WriteHeader(status)
		_ = errorPage.Execute(w, map[string]any{
			"Status": status, "Title": title, "Detail": detail, "ID": q.id, "Style": template.CSS(errorStyle), "LogIn": status == http.StatusUnauthorized,
			"To": logInAt(r, q),
		})
	}
}

// logInAt returns the URL where a user without access logs in: the login page, or without one the
// page itself, whose response makes the browser open its dialog.
func logInAt(r *http.Request, q *request) string {
	switch {
	case q.guard == nil || !q.guard.canLogIn():
		return ""
	case safe(r.Method):
		return q.guard.toLogin(r.URL.RequestURI())
	}
	return q.guard.toLogin("")
}

// BadBody responds to a request whose body could not be read: with status 413 if it exceeds
// MaxBody, and otherwise 400.
func BadBody(w http.ResponseWriter, r *http.Request, err error) {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		Problem(w, r, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("The request body exceeds the limit of %d bytes.", long.Limit))
		return
	}
	Problem(w, r, http.StatusBadRequest, "", "The request body could not be read: "+err.Error()+".")
}

// errorStyle is inlined in error pages, since the user may not have access to style sheets.
const errorStyle = `body{margin:0;min-height:100dvh;display:grid;place-items:center;background:light-dark(#f6f7f9,#0f1116);color:light-dark(#171a21,#e8eaf0);font:15px/1.55 system-ui,sans-serif}` +
	`main{box-sizing:border-box;width:min(480px,100vw - 32px);margin:16px;padding:26px 28px;border:1px solid light-dark(#e3e6ec,#262b36);border-radius:12px;background:light-dark(#fff,#171a21);overflow-wrap:anywhere}` +
	`h1{margin:0 0 8px;font-size:20px;line-height:1.3}p{margin:0 0 14px}p:last-child{margin:0}small{color:light-dark(#667085,#8d97a8)}` +
	`a{display:inline-block;padding:7px 14px;border-radius:7px;background:light-dark(#4f46e5,#6059f0);color:#fff;font-weight:600;text-decoration:none}`

// errorPolicy allows only the style of the error page.
var errorPolicy = func() string {
	sum := sha256.Sum256([]byte(errorStyle))
	return "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// errorPage is shown to users who may not view the pages. If a password is required, it has a link
// to log in.
var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>{{.Status}} {{.Title}}</title><style>{{.Style}}</style></head>
<body><main><h1>{{.Title}}</h1>
{{with .Detail}}<p>{{.}}</p>
{{end}}{{if .LogIn}}<p><a href="{{.To}}">Log in</a></p>
{{end}}{{with .ID}}<p><small>Request {{.}}</small></p>
{{end}}</main></body>
</html>
`))

var (
	html = []string{"text/html", "application/xhtml+xml"}
	jsn  = []string{"application/json", "application/problem+json"}
)

// prefersJSON reports whether the client accepts JSON explicitly and does not prefer HTML.
func prefersJSON(h http.Header) bool {
	q := accepts(h, jsn...)
	return q > 0 && q >= accepts(h, html...)
}

// accepts returns the highest quality of the types in the Accept header, ignoring wildcards.
func accepts(h http.Header, types ...string) (best float64) {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		q := 1.0
		for param := range strings.SplitSeq(params, ";") {
			if k, v, _ := strings.Cut(strings.TrimSpace(param), "="); strings.EqualFold(k, "q") {
				q, _ = strconv.ParseFloat(v, 64)
			}
		}
		for _, t := range types {
			if name == t {
				best = max(best, q)
			}
		}
	}
	return best
}
