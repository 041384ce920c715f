package incidents_test

import (
	"cmp"
	"context"
	"flag"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// timeout bounds each wait for a page. It is long for busy machines.
const timeout = 2 * time.Minute

// chrome is the browser of all tests; nil if it is missing.
var chrome context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // incidents mostly wait
		panic(err)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "incidents-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		buildPrograms(dir)
		path, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium"))
		if err != nil {
			return m.Run() // each test reports that it is missing
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(),
			chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
			chromedp.Flag("disable-dev-shm-usage", true), // otherwise pages crash where /dev/shm is small, as in containers
			chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true))
		defer stop()
		ctx, end := chromedp.NewContext(allocator)
		defer end()
		late := time.AfterFunc(timeout, func() { panic("chromium does not start within " + timeout.String()) })
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // its context lives as long as the browser
			panic("chromium does not start: " + err.Error())
		}
		late.Stop()
		chrome = ctx
		return m.Run()
	}())
}
