package access

import (
	"net/http"
	"net/netip"
	"strings"
)

// trusts says whether the request's connection is one of the proxy.
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

// strip takes what only the proxy may say off a request.
func (p *proxy) strip(h http.Header) {
	for _, name := range []string{p.UserHeader, p.RoleHeader, p.GroupsHeader} {
		if name != "" {
			h.Del(name)
		}
	}
}

// user is whom the proxy names; a user without a name: nobody has logged in there. A refusal says that the headers cannot be those of
// a proxy that is set up well.
func (p *proxy) user(r *http.Request) (User, *Refusal) {
	if p.UserHeader == "" {
		return User{}, nil
	}
	name, ok := single(r.Header, p.UserHeader)
	role, okRole := single(r.Header, p.RoleHeader)
	switch {
	case !ok || !okRole:
		// The browser has sent one too, and the proxy has added its own: which is which?
		return User{}, &Refusal{Status: http.StatusBadRequest,
			Detail: "A header that names the user or the role is there more than once. The proxy must remove those that browsers send."}
	case name == "":
		return User{}, nil
	case !printable(name):
		return User{}, &Refusal{Status: http.StatusBadRequest, Detail: "The name of the user has control characters, or is too long."}
	}
	return User{Name: name, Role: p.role(r, role)}, nil
}

func (p *proxy) role(r *http.Request, named string) Role {
	if named != "" {
		role, _ := ParseRole(named) // a name that is none of a role gives None: better than more than was meant
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

// single is the value of a header that may be there once.
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

// client is the address of the browser: that of the connection, or if this is the proxy's, the last in X-Forwarded-For that no
// trusted proxy has. What stands before it may be made up.
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

// parseHop reads an address, which may have a port, and brackets if it is of IPv6.
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
