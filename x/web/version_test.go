package web_test

import (
	"encoding/json"
	"testing"
)

// The API returns the version of the web UI.
func TestVersion(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "")
	for _, path := range []string{"/api/v2", "/api/v2/whoami"} {
		var told struct{ Version string }
		_, _, body := get(t, h, path)
		if err := json.Unmarshal([]byte(body), &told); err != nil || told.Version != "(devel)" { // tests have no version
			t.Errorf("%s: version %q, %v", path, told.Version, err)
		}
	}
}
