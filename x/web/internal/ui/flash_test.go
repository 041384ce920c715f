package ui

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A message waits for the next page: background requests neither show nor remove it.
func TestFlashWaitsForPage(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"", "HX-Request", "X-Search-Part"} {
		r := httptest.NewRequest(http.MethodGet, "/queues", http.NoBody)
		r.AddCookie(&http.Cookie{Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(`{"Text":"done"}`))})
		if header != "" {
			r.Header.Set(header, "true")
		}
		w := httptest.NewRecorder()
		said := takeFlash(w, r, "") != nil
		if took := len(w.Result().Cookies()) > 0; said != (header == "") || took != said {
			t.Errorf("with %q it is said: %v, taken away: %v", header, said, took)
		}
	}
}
