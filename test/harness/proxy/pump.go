package proxy

import (
	"net"
	"time"
)

// inFlight is how many delayed reads a direction buffers. Beyond that the sender is blocked,
// as on a real link.
const inFlight = 256

type packet struct {
	data []byte
	due  time.Time
}

// pump copies one direction of a connection. blocked is the cut, besides
// CutBlackhole, that stops it.
//
// While it is stopped it writes nothing and so does not pass on the end of the
// stream either; the reader stops when its queue is full.
func (p *Proxy) pump(conn *connection, from, to net.Conn, blocked CutMode) {
	packets := make(chan packet, inFlight)
	go func() {
		defer close(packets)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				latency, _ := p.speed()
				packets <- packet{data: buffer[:n], due: time.Now().Add(latency)}
			}
			if err != nil {
				return
			}
		}
	}()
	open := func(cut CutMode) bool { return cut != CutBlackhole && cut != blocked }
	for packet := range packets {
		time.Sleep(time.Until(packet.due))
		if !p.waitOpen(conn, open) || !p.write(to, packet.data) {
			// It cannot be delivered: the sender gets a reset.
			conn.reset()
			for range packets { // so that the reader ends
			}
			return
		}
	}
	if p.waitOpen(conn, open) {
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
}

func (p *Proxy) write(to net.Conn, data []byte) bool {
	if _, err := to.Write(data); err != nil {
		return false
	}
	if _, rate := p.speed(); rate > 0 {
		time.Sleep(time.Duration(len(data)) * time.Second / time.Duration(rate))
	}
	return true
}
