package protocol

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// TestARenewalIsOneMessageOfTheAgent counts TLS records, each of which wakes the hub: with a
// thousand members, renewals are most of what it does at rest. gRPC's estimate of the bandwidth
// would double them: a ping follows each response.
func TestARenewalIsOneMessageOfTheAgent(t *testing.T) {
	g, dir, records := patient(t), newDirectory("m1"), &atomic.Int64{}
	h := startHub(t, dir, func(h *hubServer) {
		h.wrap = func(l net.Listener) net.Listener { return recordListener{l, records} }
	})
	files, err := h.pki.Agent("m1", "m1")
	g.Expect(err).NotTo(HaveOccurred())
	startAgent(t, h, files, "one")
	member := dir.of("m1")
	renewals := func() int { return get(member, func(r *record) int { return r.renewals }) }
	g.Eventually(member.connected).Should(BeTrue())
	g.Eventually(renewals).Should(BeNumerically(">", 3))
	renewed, sent := renewals(), records.Load()
	g.Eventually(renewals).Should(BeNumerically(">=", renewed+20))
	renewed, sent = renewals()-renewed, records.Load()-sent
	t.Logf("%d records for %d renewals", sent, renewed)
	g.Expect(sent).To(BeNumerically("<", int64(renewed)*3/2), "the agent sends more than its renewals")
}

// recordListener counts the TLS records that its connections receive.
type recordListener struct {
	net.Listener
	received *atomic.Int64
}

func (l recordListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recordConn{Conn: conn, received: l.received}, nil
}

type recordConn struct {
	net.Conn
	received *atomic.Int64
	// header has what was read of a record's header, and left is what follows of its content.
	header []byte
	left   int
}

func (c *recordConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	for data := into[:n]; len(data) > 0; {
		if c.left > 0 {
			read := min(c.left, len(data))
			data, c.left = data[read:], c.left-read
			continue
		}
		c.header, data = append(c.header, data[0]), data[1:]
		if len(c.header) == 5 {
			c.left, c.header = int(binary.BigEndian.Uint16(c.header[3:])), c.header[:0]
			c.received.Add(1)
		}
	}
	return n, err
}
