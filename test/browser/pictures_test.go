package browser_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/asynq-go/asynq/internal/proctest"
)

var pictures = flag.String("pictures", "", "write pictures of all pages into this directory, which takes five minutes")

// mostPicture is the maximum size of a screenshot in bytes, since they are in the repository.
const mostPicture = 150 << 10

// TestPictures writes screenshots of all pages with the demo data of asynq dev, in both themes. It
// uses redis-server if available, since the embedded Redis reports little.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return // nothing to do
	}
	program := filepath.Join(t.TempDir(), "asynq")
	build := exec.Command("go", "build", "-o", program, "../../x/cmd/asynq")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	addr := proctest.FreeAddr(t)
	const token = "a-token-for-the-pictures"
	args := []string{"dev", "--listen", addr, "--rate", "40", "--seed", "11", "--token", token}
	if found, _ := proctest.HasRedis(); found {
		args = append(args, "--redis", proctest.StartRedis(t, "--maxmemory", "64mb", "--slowlog-log-slower-than", "2000").Addr())
	}
	proctest.Start(t, program, args...)
	proctest.Listens(t, addr)
	s := &site{url: "http://" + addr}
	// An open stream keeps the poller at its short interval; a tab would time out.
	events, err := http.Get(s.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	go io.Copy(io.Discard, events.Body) //nolint:errcheck // ends with the body
	<-time.After(105 * time.Second)     // collects data for the charts

	for _, operation := range []string{
		`{"kind":"archive","queue":"newsletter","state":"pending","filter":"payload:unsubscribed"}`,
		`{"kind":"run","queue":"default","state":"archived","filter":"error:timeout"}`,
		`{"kind":"delete","queue":"images","state":"completed"}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/v2/operations", strings.NewReader(operation))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close() != nil || response.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %s", operation, response.Status)
		}
	}

	// Examples of single items are taken from the pages that list all.
	link := func(page, pattern string) string {
		var found string
		proctest.Eventually(t, page+" to have "+pattern, func() bool {
			_, text := s.get(t, page)
			if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
				found = string(bytes.ReplaceAll([]byte(m[1]), []byte("&amp;"), []byte("&")))
			}
			return found != ""
		})
		return found
	}
	queue := link("/queues", `<a href="(/queue\?[^"]+)"`)
	tasks := link("/queues", `href="(/tasks\?[^"]*state=archived[^"]*)"`)
	pages := map[string]string{
		"overview": "/", "queues": "/queues", "queue": queue, "tasks": tasks, "task": link(tasks, `<a href="(/task\?[^"]+)"`),
		"search": "/search?filter=retried%3E%3D1", "errors": "/errors", "error": link("/errors", `<a href="(/error\?[^"]+)"`), "types": "/types",
		"groups": "/groups", "flows": "/flows", "flow": link("/flows", `<a href="(/flow\?[^"]+)"`), "servers": "/servers", "schedulers": "/schedulers", "redis": "/redis", "operations": "/operations",
		"enqueue": "/enqueue?type=email%3Awelcome", "settings": "/settings",
	}
	if err := os.MkdirAll(*pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range pages {
		widths := map[string]int64{"": 1280}
		if slices.Contains([]string{"overview", "tasks", "task"}, name) {
			widths["-phone"] = 390
		}
		for suffix, width := range widths {
			b := open(t, s.url, "404", "ERR_INCOMPLETE")
			b.visit("/?token=" + token)
			b.do(chromedp.EmulateViewport(width, 860, chromedp.EmulateScale(1)))
			for _, dark := range []bool{false, true} {
				look := map[bool]string{false: "-light", true: "-dark"}[dark]
				b.dark(dark)
				b.visit(path)
				b.until(`!document.querySelector(".failure")`)
				b.until(`document.fonts.status === "loaded" && document.getElementById("live").innerText.length > 0`)
				b.until(`[...document.querySelectorAll("figure[data-chart]")].every((f) => f.querySelector("canvas"))`)
				call(b, page.BringToFront, cdp.Empty{}) // Chromium does not draw background tabs
				shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
				if err != nil {
					t.Fatal(err)
				}
				shot = fewerColors(t, shot)
				if len(shot) > mostPicture {
					t.Errorf("%s%s%s has %d bytes", name, suffix, look, len(shot))
				}
				if err := os.WriteFile(filepath.Join(*pictures, "web-"+name+suffix+look+".png"), shot, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if response, err := http.Get(s.url + "/healthz"); err != nil || response.Body.Close() != nil {
		t.Error("the program has ended before its pictures were taken")
	}
}

// fewerColors reduces an image to its 255 most frequent colors. All others become the nearest of
// them.
func fewerColors(t *testing.T, shot []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	dots := map[color.NRGBA]int{}
	bounds := whole.Bounds()
	at := func(x, y int) color.NRGBA {
		c, _ := color.NRGBAModel.Convert(whole.At(x, y)).(color.NRGBA)
		return color.NRGBA{c.R&^3 | c.R>>6, c.G&^3 | c.G>>6, c.B&^3 | c.B>>6, 255} // steps of four are invisible
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			dots[at(x, y)]++
		}
	}
	var all []color.NRGBA
	for c := range dots {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.NRGBA) int { return dots[b] - dots[a] })
	var few color.Palette
	for _, c := range all[:min(len(all), 256)] {
		few = append(few, c)
	}
	nearest := map[color.NRGBA]uint8{}
	for _, c := range all {
		nearest[c] = uint8(few.Index(c))
	}
	small := image.NewPaletted(bounds, few)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
