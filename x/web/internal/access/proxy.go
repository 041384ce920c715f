package access

import (
	"net/http"
	"net/netip"
	"strings"
)

// trusts reports whether the request comes from the proxy.
func (p *proxy) trusts(r *http.Request) bool {
	if p == nil {
		return false
	}
	if overUnix(r) {
		return p.unix
	}
	addr, ok := peer(r)
	return ok && p.has(addr)
}

func (p *proxy) has(addr netip.Addr) bool {
	for _, n := range p.nets {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// strip removes the headers that only the proxy may set.
func (p *proxy) strip(h http.Header) {
	for _, name := range []string{p.UserHeader, p.RoleHeader, p.GroupsHeader} {
		if name != "" {
			h.Del(name)
		}
	}
}

// user returns the user in the proxy's headers. The name is empty if no user is logged in there. A
// refusal means that the proxy is misconfigured.
func (p *proxy) user(r *http.Request) (User, *Refusal) {
	if p.UserHeader == "" {
		return User{}, nil
	}
	name, ok := single(r.Header, p.UserHeader)
	role, okRole := single(r.Header, p.RoleHeader)
	switch {
	case !ok || !okRole:
		// The browser sent the header as well, so it is ambiguous.
		return User{}, &Refusal{Status: http.StatusBadRequest,
			Detail: "A header with the user or role occurs more than once. The proxy must remove these headers from incoming requests."}
	case name == "":
		return User{}, nil
	case !printable(name):
		return User{}, &Refusal{Status: http.StatusBadRequest, Detail: "The user name has control characters or is too long."}
	}
	return User{Name: name, Role: p.role(r, role)}, nil
}

func (p *proxy) role(r *http.Request, named string) Role {
	if named != "" {
		role, _ := ParseRole(named) // an unknown name means None: fail closed
		return role
	}
	role, found := None, false
	if p.GroupsHeader != "" {
		for group := range strings.SplitSeq(strings.Join(r.Header.Values(p.GroupsHeader), ","), ",") {
			if of, ok := p.Groups[strings.TrimSpace(group)]; ok {
				role, found = max(role, of), true
			}
		}
	}
	if !found {
		return p.Role
	}
	return role
}

// single returns the value of a header that may occur only once.
func single(h http.Header, name string) (string, bool) {
	if name == "" {
		return "", true
	}
	values := h.Values(name)
	if len(values) > 1 {
		return "", false
	}
	return strings.TrimSpace(h.Get(name)), true
}

// client returns the address of the browser: that of the connection or, if this is the proxy's, the
// last address in X-Forwarded-For that is not a trusted proxy. Earlier addresses may be forged.
func (p *proxy) client(r *http.Request) (netip.Addr, bool) {
	addr, ok := peer(r)
	if !p.trusts(r) {
		return addr, ok
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := parseHop(hops[i])
		if err != nil {
			break
		}
		addr, ok = hop, true
		if !p.has(hop) {
			break
		}
	}
	return addr, ok
}

// parseHop parses an address with an optional port, and with brackets for IPv6.
func parseHop(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		var ap netip.AddrPort
		ap, err = netip.ParseAddrPort(s)
		addr = ap.Addr()
	}
	return addr.Unmap().WithZone(""), err
}
