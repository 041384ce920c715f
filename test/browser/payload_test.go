package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// moment is the maximum time of a page with a large payload. Concurrent tests take most of it. A
// page that takes quadratic time would still take minutes.
const moment = 5 * time.Second

// payloads returns difficult payloads, with the texts that the page must show.
func payloads() map[string]struct {
	data []byte
	says string
} {
	var large bytes.Buffer
	large.WriteString(`{"first":12345678901234567890,"rows":[`)
	for n := 0; large.Len() < 1<<20; n++ {
		fmt.Fprintf(&large, `{"n":%d,"note":%q},`, n, `</pre><script>document.title="owned"</script>`)
	}
	large.WriteString(`{}]}`)
	binary := make([]byte, 1<<20)
	for n := range binary {
		binary[n] = byte(n * 31)
	}
	return map[string]struct {
		data []byte
		says string
	}{
		"1 MB of JSON":       {large.Bytes(), "12345678901234567890"},
		"1 MB of bytes":      {binary, "00 1f 3e 5d"},
		"1 MB of text":       {bytes.Repeat([]byte("<b>owned</b> "), 1<<20/13), "<b>owned</b>"},
		"deep JSON":          {[]byte(strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000)), "["},
		"deep objects":       {[]byte(strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat(`}`, 100_000)), `"a"`},
		"no UTF-8":           {[]byte("\xff\xfe<img src=x onerror=\"document.title='owned'\">\xc3\x28"), "ff fe"},
		"control characters": {[]byte("a\x00b\x07c\x1b[31md\x7f"), "61 00 62"},
		"directions":         {[]byte("user \u202etxt.exe\u2066 \u200b end"), "user"},
		"a JSON of markup":   {[]byte(`{"</script><script>document.title='owned'</script>":"<img src=x onerror=\"document.title='owned'\">\u0000\u2028"}`), "onerror"},
		"one long word":      {[]byte(strings.Repeat("x", 1<<20)), "xxxx"},
	}
}

// All payloads are shown quickly in all forms. They cannot inject scripts, and downloads are exact.
func TestPayloads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	results := make(chan struct{}, 1)
	server := asynq.NewServer(s.redis, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write(task.Payload())
		results <- struct{}{}
		return err
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for name, p := range payloads() {
		text := strings.ToValidUTF8(string(p.data[:min(len(p.data), 4096)]), "\ufffd") // headers must be UTF-8
		info, err := s.client.Enqueue(asynq.NewTaskWithHeaders("owned", p.data, map[string]string{text: text}), asynq.Retention(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		await(t, results, "the task to be handled")
		s.reaches(t, info.ID, asynq.TaskStateCompleted)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := q("/task", "queue", "default", "id", info.ID)
			b := open(t, s.url)
			for _, form := range []string{"", "&as=hex", "&as=text", "&as=json"} {
				var status int
				var text string
				took := timeout
				for range 5 { // the fastest counts: other load only slows a page down
					began := time.Now()
					status, text = s.get(t, page+form)
					if took = min(took, time.Since(began)); took <= moment {
						break
					}
				}
				if took > moment {
					t.Errorf("the page%s takes %v", form, took)
				}
				if status != http.StatusOK || len(text) > 2<<20 {
					t.Errorf("the page%s answers %d, with %d bytes", form, status, len(text))
				}
			}
			b.visit(page)
			b.says("owned", p.says)
			if got := eval[int](b, `document.querySelectorAll("main img, main script, main b.owned, pre script").length`); got > 0 {
				t.Errorf("%d elements of the payload's making", got)
			}
			b.visit(page + "&as=hex")
			b.says(strings.TrimSpace(fmt.Sprintf("% x", p.data[:8])))
			if title := eval[string](b, `document.title`); title == "owned" {
				t.Error("a script has run")
			}
			b.visit(page)
			for n, link := range eval[[]string](b, `[...document.querySelectorAll("main a[download]")].map((a) => a.href)`) {
				response, err := http.Get(link)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || !bytes.Equal(got, p.data) {
					t.Errorf("download %d is %d bytes, of %d: %v", n, len(got), len(p.data), err)
				}
				if kind, as := response.Header.Get("Content-Type"), response.Header.Get("Content-Disposition"); !strings.HasPrefix(as, "attachment") || strings.Contains(kind, "html") {
					t.Errorf("download %d is %s, %s", n, kind, as)
				}
			}
			// The page does not overflow on a phone.
			b.do(phone)
			b.narrow()
		})
	}
}
