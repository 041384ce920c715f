package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static/css static/js static/vendor static/icon.svg
var static embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets serves what never changes under its URL: the path begins with the hash of all files, so that a browser may keep them for ever.
// What one of them imports by a relative path is under the same hash.
var assets = newAssetServer(static)

type assetServer struct {
	files fs.FS
	hash  string
}

func newAssetServer(files fs.FS) *assetServer {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the name is embedded
	}
	sum := sha256.New()
	_ = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error { // embedded files can be read
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(sub, name)
			sum.Write([]byte(name))
			sum.Write(content)
		}
		return err
	})
	return &assetServer{files: sub, hash: hex.EncodeToString(sum.Sum(nil))[:12]}
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
	_, _ = w.Write(content) // the browser has gone, if anything
}
