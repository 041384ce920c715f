package incidents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/chromium"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web"
)

// status runs asynq status, which must report the incident first, and end with its exit code.
func status(s *scene, i incident) {
	program, err := programs.asynq()
	s.must(err)
	proctest.Until(s.t, "asynq status", func() error {
		cmd := exec.Command(program, "--uri", "redis://"+s.addr, "status", "-o", "json", "--settings", s.settings)
		out, err := cmd.Output()
		var code *exec.ExitError
		if !errors.As(err, &code) || !i.has(health.Severity(code.ExitCode())) { // 1 for a warning, 2 for trouble
			return fmt.Errorf("%w: %s", err, out)
		}
		var r struct {
			Status string
			health.Report
		}
		if err := json.Unmarshal(out, &r); err != nil || r.Status != health.Severity(code.ExitCode()).String() {
			return fmt.Errorf("status %q with exit code %d: %w", r.Status, code.ExitCode(), err)
		}
		if complaint := i.says(r.Causes[0]); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
}

// overview opens the overview of the web UI, which must show the incident first.
func overview(s *scene, i incident) {
	chromium.Need(chrome, s.t)
	ui := web.New(web.Options{
		RedisConnOpt: asynq.RedisClientOpt{Addr: s.addr}, Anonymous: web.Admin, Health: s.health,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	server := httptest.NewServer(ui)
	s.t.Cleanup(func() {
		s.must(ui.Close()) // ends the event streams, which the server would wait for
		server.Close()
	})
	ctx, end := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	s.t.Cleanup(end)
	late := time.AfterFunc(chromium.Timeout, end)
	defer late.Stop()
	s.must(chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL), chromedp.WaitReady("#main")))
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	s.must(err)
	proctest.Until(s.t, "the overview", func() error {
		shown, err := chromedp.Run(ctx, chromedp.Evaluate[health.Cause](firstCause))
		if err != nil {
			return err
		}
		shown.Kind = i.kind // the page does not show it
		if complaint := i.says(shown); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
}

// firstCause is an expression for the first cause on a page, whose charts must be small. Evidence
// that says the same as the title is not repeated.
const firstCause = `(() => {
	const first = document.querySelector("#causes .verdict")
	if (!first) return {title: "no cause: " + document.getElementById("main").innerText}
	const large = [...first.querySelectorAll(".evidence .spark")].map((c) => c.getBoundingClientRect()).filter((c) => c.width > 160 || c.height > 30)
	if (large.length) return {title: "a chart of " + large[0].width + " by " + large[0].height + " pixels"}
	const title = first.querySelector("p > a").innerText
	return {
		severity: first.className.match(/severity-(\w+)/)[1],
		title,
		evidence: [title, ...[...first.querySelectorAll(".evidence li a")].map((a) => a.innerText)].map((text) => ({text})),
	}
})()`

// dash runs asynq dash in a terminal. Its first page must show the incident first.
func dash(s *scene, i incident) {
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI_REQUIRE_TMUX") == "1" {
			s.t.Fatal("tmux is missing, and CI_REQUIRE_TMUX=1")
		}
		s.t.Skip("tmux is not installed")
	}
	program, err := programs.asynq()
	s.must(err)
	socket := filepath.Join(s.t.TempDir(), "tmux")
	server := exec.Command("tmux", "-u", "-S", socket, "-f", os.DevNull, "-D")
	proctest.DieWithParent(server)
	s.must(server.Start())
	s.t.Cleanup(func() {
		_ = server.Process.Kill() // it does not end by itself
		_ = server.Wait()         // killed
	})
	tmux := func(args ...string) (string, error) {
		out, err := exec.Command("tmux", append([]string{"-u", "-S", socket}, args...)...).CombinedOutput()
		return string(out), err
	}
	proctest.Until(s.t, "tmux", func() error { _, err := tmux("set-option", "-g", "remain-on-exit", "on"); return err })
	// The program's exit code is in a file, because tmux sometimes misses it.
	ended := filepath.Join(s.t.TempDir(), "ended")
	_, err = tmux("new-session", "-d", "-x", "200", "-y", "50", // titles fit
		"sh", "-c", `"$@"; echo $? >"$0.new"; mv "$0.new" "$0"`, ended, program, "--uri", "redis://"+s.addr, "dash", "--refresh", "5s", "--settings", s.settings)
	s.must(err)
	var screen string
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the dashboard shows\n%s", screen)
		}
	})
	proctest.Until(s.t, "the dashboard", func() error {
		screen, err = tmux("capture-pane", "-p")
		if err != nil {
			return err
		}
		c := firstCauseOf(screen)
		c.Kind = i.kind // the page does not show it
		if complaint := i.says(c); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
	_, err = tmux("send-keys", "q")
	s.must(err)
	proctest.Until(s.t, "the end of the dashboard", func() error {
		code, err := os.ReadFile(ended)
		if err == nil && string(code) != "0\n" {
			err = fmt.Errorf("exit code %s", code)
		}
		return err
	})
}

// causeLine matches a cause on the first page of the dashboard: severity, age, title.
var causeLine = regexp.MustCompile(`^[ ▌](notice|warning|trouble)  ?([\dhms<.]+)? *(\S.*)$`)

// firstCauseOf returns the first cause on a screen of the dashboard, with its evidence.
func firstCauseOf(screen string) (c health.Cause) {
	for line := range strings.Lines(screen) {
		line = strings.TrimRight(line, " \n")
		m := causeLine.FindStringSubmatch(line)
		switch {
		case m != nil && c.Title != "":
			return c
		case m != nil:
			c.Title = m[3]
			_ = c.Severity.UnmarshalText([]byte(m[1])) // always valid
		case c.Title != "":
			c.Evidence = append(c.Evidence, health.Evidence{Text: strings.TrimLeft(line, " –")})
		}
	}
	if c.Title == "" {
		c.Title = "missing"
	}
	return c
}
