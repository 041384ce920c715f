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

// assets serves the bundles and the other files. Their paths contain hashes of their contents, so
// browsers may cache them forever.
var assets = sync.OnceValue(func() *assetServer { return newAssetServer(static) })

type assetServer struct {
	files map[string]*asset // by name
}

type asset struct {
	content []byte
	hash    string
	packed  func() []byte // compressed by gzip, computed once; nil if compression saves little
}

func newAssetServer(files fs.FS) *assetServer {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	a := &assetServer{files: map[string]*asset{}}
	_ = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error { // reading embedded files cannot fail
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, "css/") && !strings.HasPrefix(name, "js/") {
			a.add(name, mustRead(sub, name))
		}
		return err
	})
	a.add(styleBundle, bundleStyles(sub, a.path))
	a.add(scriptBundle, bundleScripts(sub))
	return a
}

func (a *assetServer) add(name string, content []byte) {
	sum := sha256.Sum256(content)
	a.files[name] = &asset{content: content, hash: hex.EncodeToString(sum[:6]), packed: sync.OnceValue(func() []byte { return pack(content) })}
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

// path returns the path of a file below static/. It panics if there is no such file.
func (a *assetServer) path(name string) string { return a.files[name].hash + "/" + name }

// types lists content types that the system's table may lack or override.
var types = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2", ".LICENSE": "text/plain; charset=utf-8",
}

func (a *assetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hash, name, _ := strings.Cut(r.URL.Path, "/")
	file := a.files[name]
	if file == nil {
		http.NotFound(w, r)
		return
	}
	content := file.content
	kind, ok := types[path.Ext(name)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", kind)
	if hash == file.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache") // requested by a page of another version
	}
	if packed := file.packed(); packed != nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if encode.Accepts(r.Header) {
			w.Header().Set("Content-Encoding", "gzip")
			content = packed
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // fails only if the client has disconnected
}
