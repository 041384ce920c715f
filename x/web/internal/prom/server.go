package prom

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Server is a Prometheus.
type Server struct {
	url  string
	http *http.Client
}

// NewServer returns the Prometheus at a URL, or nil if that is empty. Without a scheme it is http.
func NewServer(address string) *Server {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	// What it answers is handed on, so it must come from where the configuration says.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Server{strings.TrimRight(address, "/"), &http.Client{CheckRedirect: stay}}
}

// Ask returns what it answers at a path of its API, whatever the status, in up to most bytes.
func (s *Server) Ask(ctx context.Context, path string, params url.Values, most int64) (body []byte, status string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+params.Encode(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("its answer has more than %d bytes: ask for fewer queues, or a shorter time", most)
	}
	return body, resp.Status, err
}

// Close closes the connections that nobody uses.
func (s *Server) Close() { s.http.CloseIdleConnections() }
