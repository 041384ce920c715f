package hosted

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynq-go/asynq"
)

// names is a DNS server that resolves names to addresses over in-memory connections.
type names map[string][]string

func (n names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server)
		return client, nil
	}}
}

// serve handles DNS messages over TCP (RFC 1035): each has its length as prefix.
func (n names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		response := n.response(query)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...)); err != nil {
			return
		}
	}
}

func (n names) response(query []byte) []byte {
	const header = 12
	var labels []string
	at := header
	for query[at] != 0 {
		end := at + 1 + int(query[at])
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	out := append([]byte{}, query[:at+5]...) // header and question
	addresses, known := n[strings.Join(labels, ".")]
	count := 0
	for _, text := range addresses {
		addr := netip.MustParseAddr(text)
		if known = true; addr.Is4() == (kind == 1) && (kind == 1 || kind == 28) {
			out = append(out, 0xc0, header) // the name of the question
			out = binary.BigEndian.AppendUint16(out, kind)
			out = append(out, 0, 1, 0, 0, 0, 0) // class IN, TTL 0
			out = binary.BigEndian.AppendUint16(out, uint16(len(addr.AsSlice())))
			out = append(out, addr.AsSlice()...)
			count++
		}
	}
	out[2], out[3] = 0x84, 0x80 // authoritative response
	if !known {
		out[3] |= 3 // NXDOMAIN
	}
	copy(out[4:header], []byte{0, 1, 0, byte(count), 0, 0, 0, 0})
	return out
}

// A name may resolve to any address: the address that is dialed counts.
func TestNamesOfBlockedAddresses(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	listener, err := net.Listen("tcp", ":0") // all interfaces, so that every address of this host leads to it
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	all := names{
		"v4.test": {"127.0.0.1"}, "other4.test": {"127.9.9.9"}, "v6.test": {"::1"}, "mapped.test": {"::ffff:127.0.0.1"}, "compatible.test": {"::127.0.0.1"},
		"zero4.test": {"0.0.0.0"}, "zero6.test": {"::"}, "mappedzero.test": {"::ffff:0.0.0.0"}, "link4.test": {"169.254.169.254"}, "link6.test": {"fe80::1"},
		"mappedlink.test": {"::ffff:169.254.169.254"}, "nat64.test": {"64:ff9b::7f00:1"}, "nat64link.test": {"64:ff9b::a9fe:a9fe"}, "localnat64.test": {"64:ff9b:1::7f00:1"},
		"sixtofour.test": {"2002:7f00:1::"}, "private.test": {"10.0.0.1"}, "unique.test": {"fd00::1"}, "site.test": {"fec0::1"}, "many.test": {"127.0.0.1", "::1", "10.0.0.1", "0.0.0.0", "::"},
		"broadcast.test": {"255.255.255.255"}, "multicast.test": {"224.0.0.1"},
	}
	endpoints := make(map[string]Endpoint)
	for name := range all {
		endpoints[name] = Endpoint{URL: "http://" + name + ":" + port}
	}
	for name, host := range map[string]string{
		"v4": "127.0.0.1", "v6": "[::1]", "mapped": "[::ffff:127.0.0.1]", "hex": "[::ffff:7f00:1]", "zero4": "0.0.0.0", "zero6": "[::]", "nat64": "[64:ff9b::7f00:1]",
	} {
		endpoints["literal "+name] = Endpoint{URL: "http://" + host + ":" + port}
	}
	s := newEnv(t, Config{HTTP: HTTP{resolver: all.resolver()}, Endpoints: endpoints})
	for typename := range endpoints {
		info := s.run(typename, "{}")
		if expect(t, info, asynq.TaskStateArchived, "address not allowed"); t.Failed() {
			t.Errorf("... of %s", typename)
		}
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("%d requests got through", n)
	}

	// Allowed networks can be connected to, even if a name has other addresses as well.
	some := names{"mine.test": {"127.0.0.1"}, "both.test": {"10.0.0.1", "127.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"}, "other.test": {"127.0.0.2"}}
	mine := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	endpoints = make(map[string]Endpoint)
	for name := range some {
		endpoints[name] = Endpoint{URL: "http://" + name + ":" + port}
	}
	endpoints["none.test"] = Endpoint{URL: "http://none.test:" + port}
	s = newEnv(t, Config{HTTP: HTTP{AllowNetworks: mine, resolver: some.resolver()}, Endpoints: endpoints})
	for _, name := range []string{"mine.test", "both.test", "mapped.test"} {
		expect(t, s.run(name, "{}"), asynq.TaskStateCompleted, "")
	}
	expect(t, s.run("other.test", "{}"), asynq.TaskStateArchived, "address not allowed")
	expect(t, s.run("none.test", "{}"), asynq.TaskStateRetry, "no such host")
	// If the only allowed address does not respond, the task is retried.
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(closed.Addr().String())
	_ = closed.Close()
	down := names{"down.test": {"::1", "10.0.0.1", "127.0.0.1"}}
	s = newEnv(t, Config{HTTP: HTTP{AllowNetworks: mine, resolver: down.resolver()}, Endpoints: map[string]Endpoint{"down": {URL: "http://down.test:" + port}}})
	expect(t, s.run("down", "{}"), asynq.TaskStateRetry, "do not respond")
	if n := calls.Load(); n != 3 {
		t.Errorf("%d requests got through, want 3", n)
	}
}
