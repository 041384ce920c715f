package browser_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chrome is the one browser of all tests; each has a profile and a tab of its own in it.
var chrome context.Context

func TestMain(m *testing.M) {
	os.Exit(func() int {
		path, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium"))
		if err != nil {
			return m.Run() // each test says that there is none
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(),
			chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
			chromedp.Flag("allow-pre-commit-input", true)) // else clicks before a page's first frame are lost
		defer stop()
		ctx, end := chromedp.NewContext(allocator)
		defer end()
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
			panic("chromium does not start: " + err.Error())
		}
		chrome = ctx
		return m.Run()
	}())
}

// tab is one page in a browser, with all that it complained of.
type tab struct {
	t    *testing.T
	ctx  context.Context
	root string

	noScript bool // the page runs no scripts

	answer func(*fetch.EventAuthRequired) // to a question for a password

	mu         sync.Mutex
	complaints []string
	excused    []string
}

// patience bounds whatever a page is waited for.
const patience = 20 * time.Second

// open opens a tab in a profile of its own. At the end of the test nothing may have gone wrong in it: no exception, no violation of
// the content security policy, no request that failed unless excused.
func open(t *testing.T, root string, excused ...string) *tab {
	t.Helper()
	if chrome == nil {
		if os.Getenv("CI_REQUIRE_CHROMIUM") == "1" {
			t.Fatal("chromium is missing, and CI_REQUIRE_CHROMIUM=1")
		}
		t.Skip("chromium is missing: install it, or name it in CHROMIUM")
	}
	ctx, end := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, root: root, excused: excused}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil { // the context that begins a tab ends it
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
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
	result, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// hear notes what goes wrong in a tab.
func (b *tab) hear(event any) {
	complaint := ""
	switch e := event.(type) {
	case *fetch.EventAuthRequired:
		go b.answer(e) // the browser waits for this to return before it answers
	case *fetch.EventRequestPaused:
		go func() {
			_, _ = chromedp.Call(b.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID}) // the page has gone, if anything
		}()
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

// excuse lets complaints pass that hold one of these texts.
func (b *tab) excuse(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = append(b.excused, texts...)
}

// do does one thing after the other.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true in the page, whichever page that is by then.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	asked := chromedp.Evaluate[bool]("(() => { try { return !!(" + expression + ") } catch { return false } })()")
	for {
		ok, err := chromedp.Run(ctx, asked)
		if err == nil && ok {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond): // an error is that one page has gone, and the next is not there yet
		case <-ctx.Done():
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.title + '\\n' + document.body.innerText"))
			b.t.Fatalf("waiting for %s: %v\nthe page says: %s", expression, err, text)
		}
	}
}

// dark has the page shown as on a dark or light system, which wants nothing to move: a page that fades in takes no clicks.
func (b *tab) dark(yes bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[yes]
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
}
