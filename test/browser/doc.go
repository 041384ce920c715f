// Package browser tests the web UI in Chromium: what users see and do, and what they must not be
// able to do.
//
// The tests require chromium-headless-shell or chromium on the PATH (or CHROMIUM=…). Without it,
// they are skipped unless CI_REQUIRE_CHROMIUM=1.
package browser
