package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPI []byte

// OpenAPI serves the OpenAPI description of all operations.
func OpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}
