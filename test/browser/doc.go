// Package browser tests the web UI in Chromium: what users see and do, and what they must not be
// able to do.
//
// The tests require chromium on the PATH (or CHROMIUM=…), and are skipped without it unless
// CI_REQUIRE_CHROMIUM=1.
package browser
