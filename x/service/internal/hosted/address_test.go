package hosted

import (
	"net/netip"
	"testing"
)

func TestFirewall(t *testing.T) {
	t.Parallel()
	closed := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"168.63.129.16", "192.0.0.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1",
		"fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
	}
	open := []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:800::200e"}
	var wall firewall
	for _, text := range closed {
		if wall.allows(netip.MustParseAddr(text)) {
			t.Errorf("%s is allowed", text)
		}
	}
	for _, text := range open {
		if !wall.allows(netip.MustParseAddr(text)) {
			t.Errorf("%s is not allowed", text)
		}
	}
	if err := wall.control(t.Context(), "unix", "/run/redis.sock", nil); err == nil {
		t.Error("a socket is allowed")
	}
	wall.allowed = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/10")}
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fe80::1%eth0": true, "8.8.8.8": true} {
		if got := wall.allows(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
