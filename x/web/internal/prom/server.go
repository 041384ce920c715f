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

// NewServer returns the Prometheus at a URL; nil if the URL is empty. The default scheme is http.
func NewServer(address string) *Server {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	// Responses are passed on to users, so redirects to other servers are not followed.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Server{strings.TrimRight(address, "/"), &http.Client{CheckRedirect: stay}}
}

// Ask returns the response at a path of the API, with any status, up to most bytes.
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
		err = fmt.Errorf("the response exceeds %d bytes: request fewer queues or a shorter time range", most)
	}
	return body, resp.Status, err
}

// Close closes idle connections.
func (s *Server) Close() { s.http.CloseIdleConnections() }
