package browser_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/asynq-go/asynq/test/chromium"
)

// chrome is the browser of all tests. Each test has its own profile and tab.
var chrome context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "4"); err != nil { // most tests mostly wait
			panic(err)
		}
	}
	os.Exit(func() int {
		var stop func()
		chrome, stop = chromium.Start()
		defer stop()
		return m.Run()
	}())
}

// tab is a page in a browser, with its errors.
type tab struct {
	t    *testing.T
	ctx  context.Context
	root string

	noScript bool // scripts are disabled

	mu         sync.Mutex
	complaints []string
	excused    []string
}

// timeout bounds each wait for a page. A tab has no limit of its own: some tests visit dozens of
// pages in one.
const timeout = chromium.Timeout

// open opens a tab in its own profile. At the end of the test, it checks that there were no errors:
// no exceptions, no violations of the content security policy, and no failed requests unless
// excused.
func open(t *testing.T, root string, excused ...string) *tab {
	t.Helper()
	chromium.Need(chrome, t)
	ctx, end := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	late := time.AfterFunc(timeout, end)
	b := &tab{t: t, ctx: ctx, root: root, excused: excused}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil { // the first context of a tab also closes it
		t.Fatalf("opening a tab within %s: %v", timeout, err)
	}
	late.Stop()
	if err := chromedp.Listen(ctx, b.onEvent); err != nil {
		t.Fatal(err)
	}
	b.dark(false)
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", (e) => console.error("CSP: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample))`,
	})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, complaint := range b.complaints {
			if !slices.ContainsFunc(b.excused, func(part string) bool { return strings.Contains(complaint, part) }) {
				t.Errorf("the browser complains: %s", complaint)
			}
		}
	})
	return b
}

// call calls a command of the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%T: %v", params, err)
	}
	return result
}

// onEvent records errors of a tab.
func (b *tab) onEvent(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			complaint = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			for _, arg := range e.Args {
				complaint += string(arg.Value) + " "
			}
		}
	}
	if complaint != "" {
		b.mu.Lock()
		b.complaints = append(b.complaints, complaint)
		b.mu.Unlock()
	}
}

// excuse ignores errors that contain one of these texts.
func (b *tab) excuse(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = append(b.excused, texts...)
}

// do runs steps in sequence.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page of the web UI.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.root+path), chromedp.WaitReady("#main"))
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true in the page, even if the page changes.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	asked := chromedp.Evaluate[bool]("(() => { try { return !!(" + expression + ") } catch { return false } })()")
	for {
		ok, err := chromedp.Run(ctx, asked)
		if err == nil && ok {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond): // errors occur between two pages
		case <-ctx.Done():
			b.t.Fatalf("waiting for %s: %v\nthe page says: %s", expression, err, b.text())
		}
	}
}

// dark emulates a dark or light system that prefers reduced motion: elements that fade in do not
// receive clicks.
func (b *tab) dark(yes bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[yes]
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
}
