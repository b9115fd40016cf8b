package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// A network gives each Pod an address of its own in 127/8, all of which is this machine's:
// only the containers of one Pod share an address.
type network struct {
	block int
	lock  net.Listener
	next  int
	taken map[netip.Addr]bool
}

// openNetwork reserves one of the 254 blocks of 65,536 addresses. An abstract socket marks a
// reserved block and ends with its process.
func openNetwork() (*network, error) {
	for block := 1; block < 255; block++ {
		lock, err := net.Listen("unix", fmt.Sprintf("@vdi-fleet-kubelet-%d", block))
		if err == nil {
			return &network{block: block, lock: lock, taken: map[netip.Addr]bool{}}, nil
		}
	}
	return nil, errors.New("opening network: 254 kubelets run on this machine")
}

// host returns the address of all nodes.
func (n *network) host() netip.Addr { return netip.AddrFrom4([4]byte{127, byte(n.block), 0, 1}) }

// take returns a free address, in rotation so that a released one is not reused soon. A block
// has many more addresses than nodes have Pods.
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
