#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Native hot plug: cards that come, go and are pulled, and a link that comes back worse, are told as
# the kernel sees them.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq setpci
need_built "$FABRICTRACE"

SLOT=$(bdf_of_port 2)

# A card that came back worse, where QEMU has one.
check_slot()
{
	if [[ $FT_VM_SPEED == 32 ]]; then
		plug cxl-type3,volatile-memdev=slot-memory1,sn=1
		unplug
		plug cxl-type3,volatile-memdev=slot-memory2,sn=1,x-speed=5,x-width=4
	else
		plug virtio-net-pci,disable-legacy=on
	fi
	pull
}

links_told()
{
	trace_jq hot "[.[] | select(.kind == \"pcie.link\" and .data.port == \"$SLOT\" and
		.data.to.gen != null) | .data]$1"
}

plugged()
{
	[[ -n $(bdf_below "$SLOT") ]]
}

unplugged()
{
	! plugged
}

plug()
{
	local -A gen=(["2.5"]=1 ["5.0"]=2 ["8.0"]=3 ["16.0"]=4 ["32.0"]=5)
	local n speed width

	n=$(count_of hot '.kind == "pcie.hotplug" and .data.event == "link up"')
	# The card of before is gone for the guest first, for QEMU a moment later.
	ok "a card for the slot" wait_until 10 monitor "device_add $1,id=card,bus=slot-port"
	ok "the kernel finds it" wait_until 20 plugged
	wait_until 10 has_count '.kind == "pcie.hotplug" and .data.event == "link up"' $((n + 1)) || :
	speed=$(cat "/sys/bus/pci/devices/$SLOT/current_link_speed")
	speed=${speed%% *}
	width=x$(cat "/sys/bus/pci/devices/$SLOT/current_link_width")
	is "$(links_told '[-1].to | "\(.gen) x\(.width)"')" "${gen[$speed]} $width" \
		"its link is told: $speed GT/s $width"
	LINKS+=("${gen[$speed]} $width")
}

has_count()
{
	[[ $(count_of hot "$1") -ge $2 ]]
}

unplug()
{
	ok "the card is asked to go" monitor device_del card
	ok "it goes" wait_until 20 unplugged
}

# Without asking the kernel: the slot's power and its light go off. The kernel finds no power any
# more and leaves the device as it is.
pull()
{
	setpci -s "$SLOT" CAP_EXP+18.w=0700:0700
	ok "the card is pulled" wait_until 20 trace_has hot '.data.event? == "card not present"'
}

logged()
{
	dmesg | grep -c "pciehp: Slot(2): $1" || :
}

# told EVENT: of the slot.
told()
{
	count_of hot ".kind == \"pcie.hotplug\" and .data.port == \"$SLOT\" and
		.data.slot == \"2\" and .data.event == \"$1\""
}

check_hotplug()
{
	is "$(told 'link up')" ${#LINKS[@]} "as many times a link came up"
	is "$(told 'device removed')" $((${#LINKS[@]} - 1)) "as many times a card went"
	is "$(told 'link down') $(told 'card not present')" \
		"$(logged 'Link Down') $(logged 'Card not present')" "lost links and cards as the kernel logs them"
	is "$(count_of hot '.kind == "pcie.hotplug" and .data.slot != "2"')" 0 "of no other slot"
	[[ ${#LINKS[@]} -gt 1 ]] || return 0
	is "$(links_told '| map(select(.transitions > 0))[-1] |
		"\(.from.gen) x\(.from.width)", "\(.to.gen) x\(.to.width)"')" \
		"$(printf '%s\n' "${LINKS[@]}")" "worse than before, and that is told"
	is "$(links_told '| map(.transitions) | add')" 2 "changes are counted, news of none are not"
}

declare -a LINKS=()
ok "the slot is there: $SLOT" test -n "$SLOT"
dmesg -C
trace_start hot
check_slot
trace_stop hot
is "${TRACE_STATUS[hot]}" 0 "fabrictrace: exit status"
check_hotplug
is "$(trace_jq hot 'map(select(.kind == "lost")) | length')" 0 "nothing is lost"

done_testing
