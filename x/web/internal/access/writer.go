package access

import (
	"errors"
	"net/http"
)

// writer records whether a response was started. http.ResponseController finds the other methods of
// the server's writer through Unwrap.
type writer struct {
	http.ResponseWriter
	wrote bool
}

func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.wrote = true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher. It does nothing if the server's writer cannot flush.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is called by http.ResponseController.
func (w *writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.wrote = true
	}
	return err
}

// Unwrap is called by http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// innermost returns the server's own writer.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}
