package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed static/css static/js static/vendor static/icon.svg
var static embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets serves what never changes under its URL: the path begins with the hash of all files, so that a browser may keep them for ever.
// What one of them imports by a relative path is under the same hash.
var assets = newAssetServer(static)

type assetServer struct {
	files  fs.FS
	hash   string
	packed map[string]func() []byte // by name: what gzip makes of it, once; nil where that is hardly less
}

func newAssetServer(files fs.FS) *assetServer {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the name is embedded
	}
	sum := sha256.New()
	packed := map[string]func() []byte{}
	_ = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error { // embedded files can be read
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(sub, name)
			sum.Write([]byte(name))
			sum.Write(content)
			packed[name] = sync.OnceValue(func() []byte { return pack(content) })
		}
		return err
	})
	return &assetServer{files: sub, hash: hex.EncodeToString(sum.Sum(nil))[:12], packed: packed}
}

// pack compresses a file, if that is worth it: fonts are compressed already.
func pack(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = w.Write(content)                               // memory takes all
	_ = w.Close()
	if b.Len() > len(content)*9/10 {
		return nil
	}
	return b.Bytes()
}

// takesGzip says whether a browser wants it: all do, but a proxy may not.
func takesGzip(h http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !ok || err == nil && weight > 0
		}
	}
	return false
}

// path is the path of a file below static/.
func (a *assetServer) path(name string) string { return a.hash + "/" + name }

// types are what the system's table of types may lack, or have otherwise.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2", ".LICENSE": "text/plain; charset=utf-8",
}

func (a *assetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hash, name, _ := strings.Cut(r.URL.Path, "/")
	content, err := fs.ReadFile(a.files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kind, ok := types[path.Ext(name)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", kind)
	if hash == a.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache") // a page of another version asks
	}
	if packed := a.packed[name](); packed != nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if takesGzip(r.Header) {
			w.Header().Set("Content-Encoding", "gzip")
			content = packed
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the browser has gone, if anything
}
