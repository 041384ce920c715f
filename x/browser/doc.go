// Package browser tests the web UI in a real Chromium: what people see and do, and what nobody must be able to do.
//
// The tests need chromium on the PATH (or CHROMIUM=…), and are skipped without it unless CI_REQUIRE_CHROMIUM=1.
package browser
