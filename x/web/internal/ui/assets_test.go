package ui

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed vendor.list.sums
var vendorSums string

// Vendored files match vendor.list: none was changed, added or removed.
func TestVendoredFilesAreThoseOfTheList(t *testing.T) {
	t.Parallel()
	sums := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(vendorSums)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("no line of sums: %q", lines.Text())
		}
		sums[name] = sum
	}
	files, err := fs.ReadDir(static, "static/vendor")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(sums) {
		t.Errorf("%d files, and %d sums", len(files), len(sums))
	}
	for _, file := range files {
		content, err := static.ReadFile("static/vendor/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:]); got != sums[file.Name()] {
			t.Errorf("%s has the hash %s, and vendor.list.sums has %s", file.Name(), got, sums[file.Name()])
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, kind, cache string
		status            int
	}{
		{assets().path("app.js"), "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", http.StatusOK},
		{assets().path("app.css"), "text/css; charset=utf-8", "public, max-age=31536000, immutable", http.StatusOK},
		{assets().path("vendor/inter.woff2"), "font/woff2", "public, max-age=31536000, immutable", http.StatusOK},
		{"0123456789ab/icon.svg", "image/svg+xml", "no-cache", http.StatusOK},
		{assets().files["app.js"].hash + "/js/main.js", "", "", http.StatusNotFound}, // is in the bundle
		{assets().files["app.js"].hash + "/../templates/error.html", "", "", http.StatusNotFound},
		{"", "", "", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = c.path
		assets().ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%q: status %d, want %d", c.path, w.Code, c.status)
			continue
		}
		if c.status == http.StatusOK && (w.Header().Get("Content-Type") != c.kind || w.Header().Get("Cache-Control") != c.cache) {
			t.Errorf("%q: %v", c.path, w.Header())
		}
	}
}

// Files are compressed for clients that accept it, with the header for caches. Compressed formats
// are not compressed again.
func TestAssetsAreCompressed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, accept string
		packed       bool
	}{
		{"vendor/htmx.min.js", "gzip, deflate, br, zstd", true},
		{"vendor/htmx.min.js", "br;q=1, GZIP;q=0.5", true},
		{"vendor/htmx.min.js", "", false},
		{"vendor/htmx.min.js", "br, gzip;q=0", false},
		{"vendor/inter.woff2", "gzip", false},
		{"app.css", "gzip", true},
		{"app.js", "gzip", true},
	} {
		want := assets().files[c.name].content
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = assets().path(c.name)
		r.Header.Set("Accept-Encoding", c.accept)
		w := httptest.NewRecorder()
		assets().ServeHTTP(w, r)
		h := w.Header()
		if packed := h.Get("Content-Encoding") == "gzip"; packed != c.packed || h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) ||
			(h.Get("Vary") == "Accept-Encoding") != !strings.HasSuffix(c.name, ".woff2") {
			t.Errorf("%s for %q: %v of %d bytes", c.name, c.accept, h, w.Body.Len())
		}
		got := w.Body.Bytes()
		if c.packed {
			if len(got) > len(want)/2 {
				t.Errorf("%s: %d of %d bytes", c.name, len(got), len(want))
			}
			unpacked, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(unpacked); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s for %q is another file", c.name, c.accept)
		}
	}
}

// The bundles have all styles and modules: a new file that no list names would be missing.
func TestBundles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, ext string
		parts    []string
	}{{"css", ".css", styleParts}, {"js", ".js", scriptParts}} {
		files, err := fs.ReadDir(static, "static/"+c.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(file.Name(), c.ext)
			if !slices.Contains(c.parts, name) && !slices.Contains(c.parts, c.dir+"/"+name) {
				t.Errorf("no bundle has %s/%s", c.dir, file.Name())
			}
		}
	}
	css, js := string(assets().files["app.css"].content), string(assets().files["app.js"].content)
	if !strings.Contains(css, `url("../`+assets().path("vendor/inter.woff2")+`")`) || strings.Contains(css, `url("../vendor`) {
		t.Error("the styles do not name the font by its hash")
	}
	for _, part := range []string{"var htmx=", "const { countTimes } = modules.times;", "return { follow };", "async function drawCharts() {"} {
		if !strings.Contains(js, part) {
			t.Errorf("the script has no %q", part)
		}
	}
}

// A page loads one style and one script, whose addresses change with their contents.
func TestPagesLoadBundles(t *testing.T) {
	s := newSite(t)
	page := s.get("/")
	var loaded []string
	for _, n := range page.all("script") {
		loaded = append(loaded, attr(n, "src"))
	}
	for _, n := range page.all("link", "rel", "stylesheet") {
		loaded = append(loaded, attr(n, "href"))
	}
	want := []string{root + "/static/" + assets().path("app.js"), root + "/static/" + assets().path("app.css")}
	if !slices.Equal(loaded, want) {
		t.Errorf("%q, want %q", loaded, want)
	}
}
