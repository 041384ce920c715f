package hosted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// errAddress is what a connection fails with whose address nothing may be sent to.
var errAddress = errors.New("the address is not allowed: list its network in hosted.http.allow_networks if it is meant")

// closed are networks that lead into this host, its own network or nowhere, beyond those that netip knows by name. A name of a public
// host can resolve to any of them.
var closed = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"168.63.129.16/32", // of a cloud: tells its machines secrets, and no other server has it
	"::/96",            // IPv4-compatible
	"::ffff:0:0:0/96",  // IPv4-translated
	"64:ff9b::/96",     // NAT64: the last four bytes are an IPv4 address
	"64:ff9b:1::/48", "100::/64",
	"2001::/23", // Teredo, and what is meant for protocols
	"2001:db8::/32",
	"2002::/16", // 6to4: holds an IPv4 address
	"3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// firewall says where connections may go. It is asked about the address that is dialed, after the name was resolved: what a name
// resolved to when it was looked at earlier tells nothing.
type firewall struct{ allowed []netip.Prefix }

// allows reports whether a connection may go to an address.
func (f *firewall) allows(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range f.allowed {
		if p.Contains(addr) {
			return true
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range closed {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// Reaches reports whether tasks may be posted to an address.
func (h *HTTP) Reaches(addr netip.Addr) bool {
	return (&firewall{allowed: h.AllowNetworks}).allows(addr)
}

// dial connects to any address of a name that is allowed. The error is errAddress only if none is: the dialer tells the first error, and
// that another address does not answer now is no reason to give up.
func (f *firewall) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	passed := new(atomic.Bool)
	conn, err := dialer.DialContext(context.WithValue(ctx, passedKey{}, passed), network, address)
	if passed.Load() && errors.Is(err, errAddress) {
		return nil, errors.New("the addresses that are allowed do not answer, and others are not allowed: " + err.Error())
	}
	return conn, err
}

// passedKey is the key of what control sets when it has let an attempt through.
type passedKey struct{}

// control is for net.Dialer.ControlContext, which gets the address of each attempt to connect.
func (f *firewall) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || (network != "tcp4" && network != "tcp6"):
		return fmt.Errorf("%s %s: %w", network, address, errAddress)
	case !f.allows(to.Addr()):
		return fmt.Errorf("%s: %w", to.Addr(), errAddress)
	}
	if passed, ok := ctx.Value(passedKey{}).(*atomic.Bool); ok {
		passed.Store(true)
	}
	return nil
}
