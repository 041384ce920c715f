package apiv2

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumentDeclares checks the requirements of client generators. The openapi step of .ci/run
// sets ASYNQ_OPENAPI_DIR to lint the document with Redocly.
func TestDocumentDeclares(t *testing.T) {
	s := newSite(t, nil)
	if dir := os.Getenv("ASYNQ_OPENAPI_DIR"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "web.json"), s.api.openapi, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info, _ := s.doc["info"].(object)
	for name, declared := range map[string]any{"servers": s.doc["servers"], "security": s.doc["security"], "license": info["license"]} {
		if declared == nil {
			t.Errorf("the document does not declare %s", name)
		}
	}
	paths, _ := s.doc["paths"].(object)
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			found := false
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				found = found || strings.HasPrefix(status, "4")
			}
			if !found {
				t.Errorf("%s %s declares no 4XX response", method, path)
			}
		}
	}
}
