package poll

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

const (
	// heartbeat is the interval of comments on an idle stream. Proxies close idle connections.
	heartbeat = 15 * time.Second

	// writeTimeout is how long a write to a client may take before the client counts as
	// disconnected.
	writeTimeout = 10 * time.Second

	// streamStart sets the reconnection delay of browsers, in milliseconds.
	streamStart = "retry: 2000\n\n"
)

// event is the data of a snapshot event. Everything else is requested by the pages.
type event struct {
	Seq      uint64    `json:"seq"`
	At       time.Time `json:"at"`
	Error    string    `json:"error,omitempty"`
	Causes   int       `json:"causes"`
	Troubles int       `json:"troubles"`
}

func newEvent(s *Snapshot) event {
	e := event{Seq: s.Seq, At: s.At, Causes: len(s.Health.Causes)}
	if s.Err != nil {
		e.Error = show.RedisError(s.Err)
		if !strings.HasPrefix(e.Error, "Redis ") {
			e.Error = "Redis is unreachable: " + e.Error
		}
	}
	for _, c := range s.Health.Causes {
		if c.Severity == health.Trouble {
			e.Troubles++
		}
	}
	return e
}

// Events is an http.HandlerFunc that serves a stream (text/event-stream). It sends an event
// "snapshot" for the latest snapshot and each new one, and a comment every 15 s. The data is JSON:
// {seq, at, error?, causes, troubles}. The stream ends with the request, with Close, and when the
// client does not read for ten seconds. Streams beyond Config.MaxStreams are rejected with 503.
func (p *Poller) Events(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "Only GET is supported.", http.StatusMethodNotAllowed)
		return
	}
	defer p.streams.Add(-1)
	if p.streams.Add(1) > int64(p.cfg.MaxStreams) {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many event streams are open. Close some tabs.", http.StatusServiceUnavailable)
		return
	}
	if p.closed() {
		http.Error(w, "The server is shutting down.", http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	s := &stream{w: w, rc: http.NewResponseController(w)}
	snapshots := p.Subscribe(r.Context())
	if !s.send([]byte(streamStart)) {
		return
	}
	ticks := time.NewTicker(heartbeat)
	defer ticks.Stop()
	for {
		select {
		case snapshot, ok := <-snapshots:
			if !ok || !s.snapshot(snapshot) {
				return
			}
		case <-ticks.C:
			if !s.send([]byte(": here\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes to one client.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) snapshot(snapshot *Snapshot) bool {
	data, err := json.Marshal(newEvent(snapshot))
	if err != nil {
		return false
	}
	var text bytes.Buffer
	text.WriteString("event: snapshot\ndata: ")
	text.Write(data) // JSON has no newlines
	text.WriteString("\n\n")
	return s.send(text.Bytes())
}

// send writes text and reports whether it succeeded. Its deadline replaces http.Server's
// WriteTimeout, which would end the stream.
func (s *stream) send(text []byte) bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer supports it
	if _, err := s.w.Write(text); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
