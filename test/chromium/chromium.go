// Package chromium starts the browser of tests: CHROMIUM, or else the first on the PATH of
// chromium-headless-shell, which takes half the CPU time, and chromium.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Timeout bounds each wait for a page. It is long for busy machines.
const Timeout = 2 * time.Minute

// Start starts the browser. The context is nil if the browser is missing: see Need. The caller must
// call stop.
func Start() (browser context.Context, stop func()) {
	path := find()
	if path == "" {
		return nil, func() {}
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.DisableGPU,
		chromedp.Flag("allow-pre-commit-input", true), // otherwise clicks before the first frame of a page are lost
		chromedp.Flag("disable-dev-shm-usage", true),  // otherwise pages crash where /dev/shm is small, as in containers
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-hang-monitor", true))
	ctx, end := chromedp.NewContext(allocator)
	late := time.AfterFunc(Timeout, func() { panic(path + " does not start within " + Timeout.String()) })
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // its context lives as long as the browser
		panic(path + " does not start: " + err.Error())
	}
	late.Stop()
	return ctx, func() {
		end()
		stopAllocator()
	}
}

// find returns the path of the browser; "" if it is missing.
func find() string {
	names := []string{"chromium-headless-shell", "chromium"}
	if name, ok := os.LookupEnv("CHROMIUM"); ok {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Need skips a test if the browser is missing. If CI_REQUIRE_CHROMIUM is 1, the test fails.
func Need(browser context.Context, t testing.TB) {
	t.Helper()
	if browser != nil {
		return
	}
	if os.Getenv("CI_REQUIRE_CHROMIUM") == "1" {
		t.Fatal("chromium is missing, and CI_REQUIRE_CHROMIUM=1")
	}
	t.Skip("chromium is missing: install it, or name it in CHROMIUM")
}
