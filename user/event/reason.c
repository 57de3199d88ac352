// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Drop reasons that are no fault. By name: the numbers differ by kernel. */
#include "event/event.h"

static const struct {
	const char *reason;
	enum ft_drop_is is;
} reasons[] = {
	/* What comes all the time: a closed port, a duplicate, a frame for somebody else. */
	{ "NOT_DROPPED_YET", FT_DROP_IS_ORDINARY },
	{ "CONSUMED", FT_DROP_IS_ORDINARY },
	{ "NO_SOCKET", FT_DROP_IS_ORDINARY },
	{ "SOCKET_CLOSE", FT_DROP_IS_ORDINARY },
	{ "SOCKET_FILTER", FT_DROP_IS_ORDINARY },
	{ "UNIX_DISCONNECT", FT_DROP_IS_ORDINARY },
	{ "UNIX_SKIP_OOB", FT_DROP_IS_ORDINARY },
	{ "OTHERHOST", FT_DROP_IS_ORDINARY },
	{ "UNICAST_IN_L2_MULTICAST", FT_DROP_IS_ORDINARY },
	{ "TCP_OLD_DATA", FT_DROP_IS_ORDINARY },
	{ "TCP_OFOMERGE", FT_DROP_IS_ORDINARY },
	{ "TCP_OLD_SEQUENCE", FT_DROP_IS_ORDINARY },
	{ "TCP_RESET", FT_DROP_IS_ORDINARY },
	{ "TCP_CLOSE", FT_DROP_IS_ORDINARY },
	{ "TCP_OLD_ACK", FT_DROP_IS_ORDINARY },
	{ "TCP_TOO_OLD_ACK", FT_DROP_IS_ORDINARY },
	{ "TCP_ABORT_ON_DATA", FT_DROP_IS_ORDINARY },
	{ "TCP_RFC7323_PAWS_ACK", FT_DROP_IS_ORDINARY },
	{ "TCP_RFC7323_TW_PAWS", FT_DROP_IS_ORDINARY },
	{ "TCP_FASTOPEN", FT_DROP_IS_ORDINARY },
	{ "UNHANDLED_PROTO", FT_DROP_IS_ORDINARY },
	{ "IPV6DISABLED", FT_DROP_IS_ORDINARY },
	{ "IPV6_NDISC_NS_OTHERHOST", FT_DROP_IS_ORDINARY },
	{ "TAP_FILTER", FT_DROP_IS_ORDINARY },
	{ "TAP_TXFILTER", FT_DROP_IS_ORDINARY },
	{ "DUP_FRAG", FT_DROP_IS_ORDINARY },
	{ "QUEUE_PURGE", FT_DROP_IS_ORDINARY },
	{ "PACKET_SOCK_ERROR", FT_DROP_IS_ORDINARY },
	{ "MAC_IEEE_MAC_CONTROL", FT_DROP_IS_ORDINARY },
	{ "BRIDGE_INGRESS_STP_STATE", FT_DROP_IS_ORDINARY },
	{ "LOCAL_MAC", FT_DROP_IS_ORDINARY },
	/* What the packet arrived in vain for: worth a line, but it had crossed its links by then. */
	{ "IP_NOPROTO", FT_DROP_IS_ENDPOINT },
	{ "TCP_FLAGS", FT_DROP_IS_ENDPOINT },
	{ "TCP_LISTEN_OVERFLOW", FT_DROP_IS_ENDPOINT },
	{ "TCP_ACK_UNSENT_DATA", FT_DROP_IS_ENDPOINT },
	{ "TCP_INVALID_SEQUENCE", FT_DROP_IS_ENDPOINT },
	{ "TCP_INVALID_SYN", FT_DROP_IS_ENDPOINT },
	{ "TCP_RFC7323_PAWS", FT_DROP_IS_ENDPOINT },
	{ "TCP_OVERWINDOW", FT_DROP_IS_ENDPOINT },
	{ "TCP_ZEROWINDOW", FT_DROP_IS_ENDPOINT },
	{ "TCP_OFO_DROP", FT_DROP_IS_ENDPOINT },
};

enum ft_drop_is ft_drop_is(const char *reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (!strcmp(reasons[i].reason, reason))
			return reasons[i].is;
	return FT_DROP_IS_FAULT;
}
