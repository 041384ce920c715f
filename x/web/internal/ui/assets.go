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

	"github.com/asynq-go/asynq/x/web/internal/encode"
)

//go:embed static/css static/js static/vendor static/icon.svg
var static embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets serves files whose URLs contain the hash of all files, so browsers may cache them forever.
// Relative imports of a file have the same hash, which is computed when it is first needed.
var assets = sync.OnceValue(func() *assetServer { return newAssetServer(static) })

type assetServer struct {
	files  fs.FS
	hash   string
	packed map[string]func() []byte // by name: the file compressed by gzip, computed once; nil if compression saves little
}

func newAssetServer(files fs.FS) *assetServer {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	sum := sha256.New()
	packed := map[string]func() []byte{}
	_ = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error { // reading embedded files cannot fail
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

// pack compresses a file. It returns nil if that saves little, as for fonts.
func pack(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                               // writing to memory cannot fail
	_ = w.Close()
	if b.Len() > len(content)*9/10 {
		return nil
	}
	return b.Bytes()
}

// path returns the path of a file below static/.
func (a *assetServer) path(name string) string { return a.hash + "/" + name }

// types lists content types that the system's table may lack or override.
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
		w.Header().Set("Cache-Control", "no-cache") // requested by a page of another version
	}
	if packed := a.packed[name](); packed != nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if encode.Accepts(r.Header) {
			w.Header().Set("Content-Encoding", "gzip")
			content = packed
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // fails only if the client has disconnected
}
