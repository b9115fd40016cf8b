package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// A network assigns Pods addresses of their own in 127/8, which all is this
// machine's: guards and desktops of one Pod meet there, and no others.
type network struct {
	block int
	lock  net.Listener
	next  int
	taken map[netip.Addr]bool
}

// openNetwork takes one of the 254 blocks of 65,536 addresses. Which are taken is
// recorded by abstract sockets, that end with their process.
func openNetwork() (*network, error) {
	for block := 1; block < 255; block++ {
		lock, err := net.Listen("unix", fmt.Sprintf("@vdi-fleet-kubelet-%d", block))
		if err == nil {
			return &network{block: block, lock: lock, taken: map[netip.Addr]bool{}}, nil
		}
	}
	return nil, errors.New("opening network: 254 kubelets run on this machine")
}

// host is the address of all nodes.
func (n *network) host() netip.Addr { return netip.AddrFrom4([4]byte{127, byte(n.block), 0, 1}) }

// take returns an address that no Pod has, and that none has had for as long as
// there are others. The hundreds of a block are many more than nodes have Pods.
func (n *network) take() netip.Addr {
	for {
		n.next = n.next%(254*250) + 1
		address := netip.AddrFrom4([4]byte{127, byte(n.block), byte(1 + n.next/250), byte(1 + n.next%250)})
		if !n.taken[address] {
			n.taken[address] = true
			return address
		}
	}
}

func (n *network) release(address netip.Addr) { delete(n.taken, address) }

// answer listens at a Pod's port as a desktop would, and ends every connection.
func answer(address string, port int32) (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return listener, nil
}
