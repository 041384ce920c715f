// Package lease implements the HTTP operations of workers: take tasks by long polling, extend
// leases and settle them.
package lease

import (
	"encoding/base64"
	"encoding/binary"
)

// Clients see a lease as a handle, an opaque string: version, queue, ID, worker name and token in
// base64url. Only the token is secret. Only the worker stores it.

const (
	version        = 2
	versionUnnamed = 1 // without worker name, issued by older instances
)

// handle is a decoded lease handle.
type handle struct{ queue, id, worker, token string }

// encode returns the handle as a string.
func encode(w handle) string {
	buf := make([]byte, 0, 1+3*binary.MaxVarintLen32+len(w.queue)+len(w.id)+len(w.worker)+len(w.token))
	buf = append(buf, version)
	for _, part := range []string{w.queue, w.id, w.worker} {
		buf = binary.AppendUvarint(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	buf = append(buf, w.token...)
	return base64.RawURLEncoding.EncodeToString(buf)
}

// decode parses a handle.
func decode(text string) (w handle, ok bool) {
	buf, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(buf) == 0 || buf[0] != version && buf[0] != versionUnnamed {
		return handle{}, false
	}
	parts := []*string{&w.queue, &w.id, &w.worker}
	if buf[0] == versionUnnamed {
		parts = parts[:2]
	}
	buf = buf[1:]
	for _, part := range parts {
		n, size := binary.Uvarint(buf)
		if size <= 0 || n > uint64(len(buf)-size) {
			return handle{}, false
		}
		*part = string(buf[size : size+int(n)])
		buf = buf[size+int(n):]
	}
	w.token = string(buf)
	return w, w.queue != "" && w.id != "" && w.token != ""
}
