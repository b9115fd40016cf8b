package restriction

import (
	"net/netip"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

// nodeDNS is the address of a node's DNS cache, which desktops must reach.
var nodeDNS = netip.MustParsePrefix("169.254.20.10/32")

// linkLocal has the link-local addresses, where clouds serve the credentials of their nodes,
// their IPv6 forms, and other addresses of such services.
var linkLocal = prefixes(
	"169.254.0.0/16",      // RFC 3927
	"fe80::/10",           // RFC 4291
	"64:ff9b::a9fe:0/112", // RFC 6052: NAT64 of the first
	"2002:a9fe::/32",      // RFC 3056: 6to4 of the first
	"fd00:ec2::/32",       // metadata of AWS
	"fd20:ce::/64",        // metadata of Google Cloud
)

// notPublic has the addresses that desktops of mode Isolated don't reach.
var notPublic = prefixes(render.NotPublic()...)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(all))
	for _, text := range all {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// unmapped converts a range of IPv4-mapped IPv6 addresses to the IPv4 range.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}
