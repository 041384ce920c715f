// Package incidents replays incidents, each on a Redis server of its own with real servers, and
// requires that the first cause that each surface shows is the right one: asynq status, the web UI
// in Chromium, and asynq dash in a terminal.
//
// The tests require redis-server. Without chromium-headless-shell or chromium on the PATH (or in
// CHROMIUM), they skip the web UI unless CI_REQUIRE_CHROMIUM=1.
package incidents
