package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// notLocal returns why a request may not come from this machine, or "" if it does. Without
// configured users, all security depends on it, so it is strict:
//
//   - The connection comes from a loopback address. Unix sockets do not count: usually a proxy is
//     at the other end.
//   - The Host is localhost or a loopback address. This excludes foreign names that resolve to this
//     address (DNS rebinding).
//   - No proxy has forwarded the request. A local proxy would make all its clients local. Most
//     proxies set a header. nginx by default does not, but it uses HTTP/1.0, which no browser and
//     no common client does. If a proxy rewrites the Host, it differs from the origin that the
//     browser reports.
func notLocal(r *http.Request) string {
	addr, ok := peer(r)
	switch {
	case overUnix(r):
		return "it came over a Unix socket"
	case !ok:
		return "its source address is unknown"
	case !addr.IsLoopback():
		return "it came from " + addr.String()
	case !localHost(r.Host):
		return fmt.Sprintf("it was sent to the host %q, not to localhost", clip(r.Host, 100))
	case !r.ProtoAtLeast(1, 1):
		return "it uses HTTP/1.0, like a proxy"
	}
	for name := range r.Header {
		if forwarding(name) {
			return "a proxy forwarded it: it has the header " + clip(name, 100)
		}
	}
	if strings.EqualFold(r.Header.Get("Sec-Fetch-Site"), "same-origin") {
		for _, name := range []string{"Origin", "Referer"} {
			u, err := url.Parse(r.Header.Get(name))
			if err == nil && u.Host != "" && !strings.EqualFold(u.Host, r.Host) {
				return fmt.Sprintf("a proxy forwarded it: the browser sent it to %q", clip(u.Host, 100))
			}
		}
	}
	return ""
}

// peer returns the IP address at the other end of the connection. Middleware that trusts X-Real-Ip
// and similar headers writes an address without a port, which does not count.
func peer(r *http.Request) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || overUnix(r) {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), true
}

// overUnix checks the listener, since the RemoteAddr of a Unix socket ("@" or empty) is ambiguous.
func overUnix(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && strings.HasPrefix(addr.Network(), "unix")
}

func localHost(hostport string) bool {
	host := hostport
	if i := strings.LastIndexByte(hostport, ':'); i > strings.LastIndexByte(hostport, ']') {
		host = hostport[:i]
		for _, c := range hostport[i+1:] {
			if c < '0' || c > '9' {
				return false
			}
		}
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	bare, bracketed := strings.CutPrefix(host, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	addr, err := netip.ParseAddr(bare)
	if err != nil || bracketed != closed || bracketed != addr.Is6() || addr.Zone() != "" {
		return false
	}
	return addr.Unmap().IsLoopback()
}

// forwarding reports whether a header is set by proxies.
func forwarding(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
		"fastly-client-ip", "x-appengine-user-ip", "x-envoy-external-address", "x-original-host":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded-")
}
