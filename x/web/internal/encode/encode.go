// Package encode compresses responses and lets clients revalidate them.
//
// Pages show payloads next to texts of the request, such as a filter. A site that can make a
// browser request such pages, and see how long the encrypted responses are, could guess the payload
// from how well its guess is compressed (BREACH). So responses to requests of other sites are not
// compressed, and all others have a comment of random length.
package encode

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	// least is the size of the smallest response that is compressed, in bytes. Shorter ones fit
	// into one packet anyway.
	least = 512

	// most is the size of the largest response that gets an ETag, in bytes. Longer ones are sent
	// while the handler writes them.
	most = 1 << 20

	// padding is the maximum length of the random comment, in bytes.
	padding = 100

	level = 5 // of gzip
)

// Wrap returns a handler that compresses the responses of next with gzip for clients that accept
// it: texts, JSON, scripts and SVG from 512 bytes on. Event streams and responses with a
// Content-Encoding are not changed, nor those with a strong ETag, which would be different for the
// compressed response.
//
// A GET of JSON that succeeds gets a weak ETag, unless it has one or is longer than 1 MiB. If the
// If-None-Match of the request has the same one, the response is 304.
func Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &writer{ResponseWriter: rw, request: r}
		next.ServeHTTP(w, r) // after a panic, the unsent part of the response is dropped
		w.finish()
	})
}

// Accepts reports whether the client accepts gzip. All browsers do; a proxy may not.
func Accepts(h http.Header) bool {
	all := false
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "gzip" && name != "*" {
			continue
		}
		q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		accepted := !ok || err == nil && weight > 0
		if name == "gzip" {
			return accepted
		}
		all = accepted
	}
	return all
}

// otherSite reports whether a page of another site has caused the request. Browsers report it on
// encrypted connections; on others, everybody on the way can read the response.
func otherSite(h http.Header) bool {
	site := h.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// compressible reports whether gzip makes a content type smaller.
func compressible(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	switch {
	case err != nil, kind == "text/event-stream":
		return false
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "json"), strings.HasSuffix(kind, "+xml"), strings.HasSuffix(kind, "yaml"):
		return true
	default:
		return kind == "application/javascript" || kind == "application/xml"
	}
}

// writers are unused compressors, each of which takes almost a megabyte.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, level) // the level is valid
	return w
}}

// writer holds a response back until it is clear how to send it.
type writer struct {
	http.ResponseWriter
	request *http.Request

	status  int  // 0: not known yet
	decided bool // the status was sent, and the rest of the body goes to gz or the ResponseWriter
	held    bytes.Buffer
	gz      *gzip.Writer // nil: not compressed
}

func (w *writer) WriteHeader(status int) {
	switch {
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
	case w.status == 0:
		w.status = status
		if status == http.StatusSwitchingProtocols {
			_ = w.start(false) // writes nothing
		}
	}
}

func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if !w.decided {
		hold := least
		if w.tagged() {
			hold = most
		}
		if w.suitable() && w.held.Len()+len(b) < hold {
			return w.held.Write(b)
		}
		if err := w.start(w.suitable()); err != nil {
			return 0, err
		}
	}
	if w.gz != nil {
		return w.gz.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// suitable reports whether the response may be held back and compressed.
func (w *writer) suitable() bool {
	h := w.Header()
	if h.Get("Content-Type") == "" && w.held.Len() > 0 {
		h.Set("Content-Type", http.DetectContentType(w.held.Bytes()))
	}
	tag := h.Get("ETag")
	return w.request.Method != http.MethodHead && h.Get("Content-Encoding") == "" && w.status != http.StatusNoContent &&
		w.status != http.StatusNotModified && w.status != http.StatusPartialContent && (tag == "" || strings.HasPrefix(tag, "W/")) &&
		(h.Get("Content-Type") == "" || compressible(h.Get("Content-Type")))
}

// tagged reports whether the response gets an ETag.
func (w *writer) tagged() bool {
	h := w.Header()
	return w.request.Method == http.MethodGet && w.status == http.StatusOK && h.Get("ETag") == "" && h.Get("Content-Type") == "application/json"
}

// start sends the status and the held bytes.
func (w *writer) start(compress bool) error {
	w.decided = true
	h := w.Header()
	if compressible(h.Get("Content-Type")) && !strings.Contains(strings.Join(h.Values("Vary"), ","), "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding, Sec-Fetch-Site")
	}
	compress = compress && compressible(h.Get("Content-Type")) && Accepts(w.request.Header) && !otherSite(w.request.Header)
	if compress {
		h.Del("Content-Length")
		h.Set("Content-Encoding", "gzip")
	}
	w.ResponseWriter.WriteHeader(w.status)
	if !compress {
		if w.held.Len() == 0 {
			return nil
		}
		_, err := w.ResponseWriter.Write(w.held.Bytes())
		return err
	}
	w.gz = writers.Get().(*gzip.Writer)
	w.gz.Reset(w.ResponseWriter)
	w.gz.Comment = pad()
	_, err := w.gz.Write(w.held.Bytes())
	return err
}

// pad returns a text of random length.
func pad() string {
	var b [1]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.Repeat("-", int(b[0])%padding)
}

// finish sends the held bytes, and ends the compressed stream.
func (w *writer) finish() {
	if !w.decided && w.status != 0 {
		if w.tagged() && w.revalidated() {
			return
		}
		_ = w.start(w.suitable() && w.held.Len() >= least) // fails only if the client has disconnected
	}
	if w.gz != nil {
		_ = w.gz.Close()
		writers.Put(w.gz)
	}
}

// revalidated sets the ETag of the response. It answers with 304 and returns true if the client has
// the same response.
func (w *writer) revalidated() bool {
	sum := sha256.Sum256(w.held.Bytes())
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:9]) + `"`
	w.Header().Set("ETag", tag)
	for known := range strings.SplitSeq(w.request.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimSpace(known); known == "*" || strings.TrimPrefix(known, "W/") == tag[2:] {
			w.Header().Del("Content-Length")
			w.decided = true
			w.ResponseWriter.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// Flush implements http.Flusher. It does nothing if the server's writer cannot flush.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is called by http.ResponseController.
func (w *writer) FlushError() error {
	if !w.decided {
		if w.status == 0 {
			w.status = http.StatusOK
		}
		if err := w.start(w.suitable()); err != nil {
			return err
		}
	}
	if w.gz != nil {
		if err := w.gz.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is called by http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
