package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// notLocal says why a request may not have come from this very machine; empty: it has. Where nothing else tells who the user is,
// everything depends on it, so it refuses when in doubt:
//
//   - The connection comes from a loopback address. One by a Unix socket does not count: mostly a proxy is at its other end.
//   - The Host is localhost or a loopback address. A name that a foreign site has pointed here (DNS rebinding) is another one.
//   - No proxy has forwarded it. One on this machine would make all the world local. Most proxies say so in a header; nginx by default
//     does not, but speaks HTTP/1.0, which no browser and no common client does; and a proxy that writes the Host anew shows
//     where a browser says that a request is of the same origin, but from another host.
func notLocal(r *http.Request) string {
	addr, ok := peer(r)
	switch {
	case overUnix(r):
		return "it came by a Unix socket"
	case !ok:
		return "where it came from is not known"
	case !addr.IsLoopback():
		return "it came from " + addr.String()
	case !localHost(r.Host):
		return fmt.Sprintf("it was sent to the host %q, not to localhost", clip(r.Host, 100))
	case !r.ProtoAtLeast(1, 1):
		return "it was sent with HTTP/1.0, as by a proxy"
	}
	for name := range r.Header {
		if forwarding(name) {
			return "a proxy has forwarded it: it has the header " + clip(name, 100)
		}
	}
	if strings.EqualFold(r.Header.Get("Sec-Fetch-Site"), "same-origin") {
		for _, name := range []string{"Origin", "Referer"} {
			u, err := url.Parse(r.Header.Get(name))
			if err == nil && u.Host != "" && !strings.EqualFold(u.Host, r.Host) {
				return fmt.Sprintf("a proxy has forwarded it: the browser sent it to %q", clip(u.Host, 100))
			}
		}
	}
	return ""
}

// peer is the address at the other end of the connection, if it is one of IP. Middleware that believes X-Real-Ip or the like
// writes an address without a port: that is not what the connection says, and so does not count.
func peer(r *http.Request) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || overUnix(r) {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), true
}

// overUnix tells by the listener, since the RemoteAddr of a Unix socket ("@" or empty) may mean anything.
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

// forwarding says whether proxies set the header.
func forwarding(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
		"fastly-client-ip", "x-appengine-user-ip", "x-envoy-external-address", "x-original-host":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded-")
}
