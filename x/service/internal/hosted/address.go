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

// errAddressBlocked is the error of a connection to an address that is not allowed.
var errAddressBlocked = errors.New("address not allowed: add its network to hosted.http.allow_networks if this is intended")

// blockedNetworks lists networks that are not public, beyond those that netip detects: they lead to
// this host, its own network or nowhere. The name of a public host may resolve to any of them.
var blockedNetworks = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"168.63.129.16/32", // cloud metadata service, which returns secrets
	"::/96",            // IPv4-compatible
	"::ffff:0:0:0/96",  // IPv4-translated
	"64:ff9b::/96",     // NAT64: the last four bytes are an IPv4 address
	"64:ff9b:1::/48", "100::/64",
	"2001::/23", // Teredo and other protocol assignments
	"2001:db8::/32",
	"2002::/16", // 6to4: contains an IPv4 address
	"3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// firewall decides which addresses may be connected to. It checks the address that is dialed, after
// name resolution, so that a name cannot resolve to another address after the check.
type firewall struct{ allowed []netip.Prefix }

// allows reports whether an address may be connected to.
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
	for _, p := range blockedNetworks {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// AllowsAddress reports whether tasks may be posted to an address.
func (h *HTTP) AllowsAddress(addr netip.Addr) bool {
	return (&firewall{allowed: h.AllowNetworks}).allows(addr)
}

// dial connects to any allowed address of a name. It returns errAddressBlocked only if no address
// is allowed. net.Dialer returns its first error, which may be errAddressBlocked although an
// allowed address just does not respond.
func (f *firewall) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	passed := new(atomic.Bool)
	conn, err := dialer.DialContext(context.WithValue(ctx, passedKey{}, passed), network, address)
	if passed.Load() && errors.Is(err, errAddressBlocked) {
		return nil, errors.New("allowed addresses do not respond, and others are not allowed: " + err.Error())
	}
	return conn, err
}

// passedKey is the context key of the flag that control sets when it allows an address.
type passedKey struct{}

// control implements net.Dialer.ControlContext, which is called with the address of each connection
// attempt.
func (f *firewall) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || (network != "tcp4" && network != "tcp6"):
		return fmt.Errorf("%s %s: %w", network, address, errAddressBlocked)
	case !f.allows(to.Addr()):
		return fmt.Errorf("%s: %w", to.Addr(), errAddressBlocked)
	}
	if passed, ok := ctx.Value(passedKey{}).(*atomic.Bool); ok {
		passed.Store(true)
	}
	return nil
}
