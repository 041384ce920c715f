package access

import (
	"net/http"
	"strings"
)

// policy lets pages load resources only from their own origin, and forbids inline scripts and
// styles.
const policy = "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'; " +
	"img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'"

// headers sets the headers of all responses. Handlers may override them. It does not set
// Strict-Transport-Security: that affects the whole host, and is the task of the server that
// terminates TLS.
func (g *Guard) headers(h http.Header, static bool, q *request) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	h.Set("X-Request-Id", q.id)
	if !static {
		h.Set("Cache-Control", "no-store")
	}
	if len(g.origins) > 0 {
		h.Add("Vary", "Origin")
	}
}

var (
	corsMethods = strings.Join([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, ", ")
	corsHeaders = "Accept, Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, X-Request-Id"
	corsExposed = "Allow, ETag, Link, Location, Retry-After, X-Request-Id"
)

// cors lets scripts of the configured origins read responses. It returns true if the request was a
// preflight request, which it has answered; these have no user.
func (g *Guard) cors(w http.ResponseWriter, r *http.Request) bool {
	from := r.Header.Get("Origin")
	if !g.origins[from] {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", from)
	h.Set("Access-Control-Allow-Credentials", "true")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", corsExposed)
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
