#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The simulated GPU node is one to the kernel itself: what is set there is what sysfs, the kernel's
# AER service, its hot plug and its trace event tell, and the numbers are the same.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh source=hgx/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/hgx/lib.sh"

need jq setpci
need_built "$FABRICTRACE"

readonly DEVICES=/sys/bus/pci/devices
readonly TRACE=/sys/kernel/tracing/instances/hgx
readonly GPU=0001:13:00.0 NIC=0001:15:00.0

# ------------------------------------------------------------------------------------ what is seen

attr()
{
	cat "$DEVICES/$1/$2"
}

speed()
{
	echo "$(attr "$1" current_link_speed) x$(attr "$1" current_link_width)"
}

# counters DEVICE CLASS: "NAME N" of those that are not 0, without the total.
counters()
{
	attr "$1" "aer_dev_$2" | awk '$2 && !/^TOTAL/ { printf "%s%s %s", n++ ? ", " : "", $1, $2 }'
}

total()
{
	attr "$1" "aer_dev_$2" | awk '/^TOTAL/ { print $2 }'
}

total_is()
{
	[[ $(total "$1" "$2") -eq $3 ]]
}

total_reaches()
{
	[[ $(total "$1" "$2") -ge $3 ]]
}

# The trace event, of one device.
events()
{
	grep -c "aer_event: $1 " $TRACE/trace || :
}

trace_begin_instance()
{
	mkdir -p $TRACE
	echo 4096 >$TRACE/buffer_size_kb
	echo 1 >$TRACE/events/ras/aer_event/enable
	at_exit rmdir $TRACE
}

# Errors of the kernel's own making, and its complaints about us.
complaints()
{
	dmesg | grep -E 'BUG:|WARNING:|Oops|refcount|nobody cared|soft lockup|rcu.*stall' || :
}

kernel_before()
{
	[[ $(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1) != "$1" ]]
}

# ----------------------------------------------------------------------------------------- the node

check_tree()
{
	local slots bdf

	is "$(find $DEVICES -name '0001:*' | wc -l)" 40 "40 functions"
	is "$(grep -lx 0x030200 $DEVICES/0001:*/class | wc -l)" 8 "8 GPUs"
	is "$(cat $DEVICES/0001:{13,14,19,1a,83,84,89,8a}:00.0/vendor | uniq -c | xargs)" \
		"8 0x10de" "of NVIDIA"
	is "$(grep -lx 0x020000 $DEVICES/0001:*/class | wc -l)" 8 "8 NICs"
	is "$(cat $DEVICES/0001:1*/numa_node | sort -u) $(cat $DEVICES/0001:8*/numa_node |
		sort -u)" "0 1" "on two NUMA nodes"
	is "$(readlink -f $DEVICES/0001:8a:00.0 | sed 's,.*/pci,,')" \
		"0001:80/0001:80:01.0/0001:87:00.0/0001:88:01.0/0001:8a:00.0" "GPU 7 is below its switch"
	slots=$(for ((i = 11; i <= 26; i++)); do cat "/sys/bus/pci/slots/$i/address"; done | xargs)
	is "$slots" "$(for bdf in 1{3,4,5,6,9,a,b,c} 8{3,4,5,6,9,a,b,c}; do
		echo "0001:$bdf:00"; done | xargs)" "each device has a slot with a number"
	is "$(sort -u $DEVICES/0001:*/max_link_speed $DEVICES/0001:*/current_link_speed)" \
		"32.0 GT/s PCIe" "all links are Gen5"
	is "$(sort -u $DEVICES/0001:*/max_link_width $DEVICES/0001:*/current_link_width)" 16 "x16"
	is "$(find /sys/bus/pci_express/devices/ -name '0001:*pcie002' | wc -l)" 4 \
		"the kernel's AER service is at the root ports"
	is "$(basename "$(readlink -f /sys/class/net/hgx5/device)")" "$(hgx_bdf nic 5)" \
		"a network device for each NIC"
}

# What the program looks at to learn which GPU a process uses, without any help of the test.
check_process()
{
	local pid

	sleep 600 3<>/dev/nvidia3 &
	pid=$!
	own_process $pid
	trace_start job -p $pid
	trace_stop job
	end_process $pid
	is "$(trace_jq job '[.[] | select(.kind == "inv.gpu") | .data.index] | sort | tojson')" \
		"[0,1,2,3,4,5,6,7]" "the program sees GPUs 0 to 7"
	is "$(trace_jq job "[.[] | select(.kind == \"inv.proc\" and .pid == $pid) |
		.data.gpu_files[]] | unique | .[]")" "$(hgx_bdf gpu 3)" "who has /dev/nvidia3 open uses GPU 3"
}

refused()
{
	! hgx_do "$@"
}

check_links()
{
	hgx_link $GPU 3 8
	is "$(speed $GPU), $(speed "$(hgx_port $GPU)")" \
		"8.0 GT/s PCIe x8, 8.0 GT/s PCIe x8" "a link is slow at both ends"
	hgx_link 12:00.0 1 16 port
	is "$(speed $GPU), $(speed 0001:12:00.0)" \
		"8.0 GT/s PCIe x8, 2.5 GT/s PCIe x16" "or at one, named by the port"
	hgx_link $GPU 5 16
	hgx_link 17:00.0 4 8
	is "$(speed 0001:10:01.0), $(speed 0001:17:00.0)" "16.0 GT/s PCIe x8, 16.0 GT/s PCIe x8" \
		"the uplink of a switch"
	hgx_link 17:00.0 5 16
	hgx_cap 18:00.0 4 16
	ok "a port that can do less: the kernel finds it anew" \
		wait_until 10 test -e /proc/driver/nvidia/gpus/0001:19:00.0/information
	is "$(attr 0001:18:00.0 max_link_speed), $(attr 0001:19:00.0 max_link_speed)" \
		"16.0 GT/s PCIe, 32.0 GT/s PCIe" "a Gen5 card in a Gen4 slot"
	is "$(speed 0001:19:00.0)" "16.0 GT/s PCIe x16" "runs at Gen4"
	hgx_gone $GPU 1
	is "$(attr $GPU current_link_width), $(attr 0001:12:00.0 current_link_width)" "63, 16" \
		"a device that is gone reads as all-ones"
	hgx_gone $GPU 0
	hgx_gone 17:00.0 1
	is "$(attr 0001:1a:00.0 current_link_width)" 63 "and what is below it"
	hgx_gone 17:00.0 0
	is "$(attr 0001:1a:00.0 current_link_width)" 16 "and is there again"
	ok "nonsense is refused" refused link 18:00.0 9 16
	ok "another machine's device too" refused link 0000:18:00.0 1 16
}

# ------------------------------------------------------------------------------------------- errors

# check_correctable DEVICE: each error a different number of times.
check_correctable()
{
	local n=0 bit before

	before=$(events "$1")
	for bit in 0x1 0x40 0x80 0x100 0x1000; do
		hgx_aer "$1" cor $bit $((n += 1))
	done
	ok "$1: the last one is counted" wait_until 5 total_is "$1" correctable 15
	is "$(counters "$1" correctable)" "RxErr 1, BadTLP 2, BadDLLP 3, Rollover 4, Timeout 5" \
		"$1: each correctable error is counted under its name"
	is "$(($(events "$1") - before))" 15 "$1: and each one is a trace event"
}

# 5.10 enables reporting on all ports, then disables it on those of switches, and leaves the rest to
# drivers: what NVIDIA's does is not known.
check_silent()
{
	local bdf

	for bdf in $GPU 0001:12:00.0; do
		hgx_aer "$bdf" cor 0x1
		is "$(hgx_messages "$bdf") $(total "$bdf" correctable)" "0 0" \
			"$bdf tells no errors on 5.10"
		hgx_report "$bdf"
		setpci -s "$bdf" ECAP_AER+10.L=ffffffff
	done
	check_correctable 0001:10:00.0
}

check_burst()
{
	local before

	before=$(total $NIC correctable)
	hgx_reset_counts
	hgx_aer $NIC cor 0x80 1000
	ok "1,000 errors are counted" wait_until 20 total_is $NIC correctable $((before + 1000))
	is "$(hgx_messages $NIC)" 1000 "as many as were sent"
}

# Three at once may be told as one or two, as in hardware; none may stay behind for ever.
check_merged()
{
	local before

	before=$(total $NIC correctable)
	for _ in 1 2 3; do
		hgx_message $NIC cor 0x1
	done
	hgx_aer $NIC cor 0x1
	ok "the first and the last of a rush are counted" \
		wait_until 5 total_reaches $NIC correctable $((before + 2))
	is "$(setpci -s 0001:10:00.0 ECAP_AER+30.L)" 00000000 "the root port has nothing left"
}

# A driver that takes part in recovery, as the NICs': the kernel clears the status.
check_uncorrectable()
{
	local n=0 bit before header
	local all="TLP 1, CmpltTO 1, CmpltAbrt 1, UnxCmplt 1, UnsupReq 1"

	before=$(events $NIC)
	for bit in 0x1000 0x4000 0x8000 0x10000 0x100000; do
		hgx_aer $NIC uncor $bit 1 0x60000001 0x2 0x3 0x4
		ok "$bit is counted" wait_until 10 total_is $NIC nonfatal $((n += 1))
	done
	# 5.10 clears the status of the port, not that of the device: each is told again with the next.
	if kernel_before 6.1; then
		all="TLP 5, CmpltTO 4, CmpltAbrt 3, UnxCmplt 2, UnsupReq 1"
	fi
	is "$(counters $NIC nonfatal)" "$all" "each non-fatal error is counted under its name"
	is "$(($(events $NIC) - before))" $n "and each one is a trace event"
	header=$(grep "aer_event: $NIC .*Poisoned TLP" $TRACE/trace || :)
	like "$header" '0x60000001,0x2,0x3,0x4' "the TLP's header is in it"
	hgx_aer $NIC uncor 0x40000
	ok "a fatal one runs through the kernel's link reset" wait_until 15 \
		told "0001:12:02.0: AER: device recovery successful"
	like "$(grep "aer_event: $NIC .*severity=Fatal" $TRACE/trace)" 'severity=Fatal, ,' \
		"the kernel tells it without its status"
}

# A driver without handlers, as NVIDIA's: recovery fails, the status stays, the next error shows it.
check_unrecovered()
{
	local gpu=0001:83:00.0

	hgx_report $gpu
	hgx_aer $gpu uncor 0x1000
	ok "a GPU's error is counted" wait_until 10 total_is $gpu nonfatal 1
	ok "its recovery fails" wait_until 10 told "0001:82:00.0: AER: device recovery failed"
	hgx_aer $gpu uncor 0x4000
	ok "another one is too" wait_until 10 total_reaches $gpu nonfatal 2
	is "$(counters $gpu nonfatal)" "TLP 2, CmpltTO 1" "the kernel counts the old one with it again"
}

all_counted()
{
	total_is 0001:86:00.0 correctable "$1" && total_is 0001:8c:00.0 nonfatal "$1" &&
		total_is 0001:80:01.0 correctable "$1"
}

# Many, of all kinds, from everywhere, and something that reads meanwhile.
check_endurance()
{
	local i reader before n=50

	# 1 s each, for a status that stays
	! kernel_before 6.1 || n=10
	before=$(events 0001:86:00.0)
	(while :; do cat $DEVICES/0001:*/current_link_width; done >/dev/null 2>&1) &
	reader=$!
	own_process $reader
	for ((i = 0; i < n; i++)); do
		hgx_aer 86:00.0 cor 0x40
		hgx_aer 8c:00.0 uncor 0x1000
		hgx_aer 80:01.0 cor 0x1
		hgx_link 84:00.0 $((i % 5 + 1)) 16
		hgx_status 88:00.0 0x4000 0
	done
	end_process $reader
	ok "$n errors each of three devices, all counted" wait_until 20 all_counted $n
	is "$(($(events 0001:86:00.0) - before))" $n "and in the trace"
}

# --------------------------------------------------------------------------- hot plug, changes, reads

told()
{
	dmesg | grep -F "$1"
}

check_hotplug()
{
	hgx_plug $GPU 0
	ok "a GPU is taken out: its function goes" wait_until 10 test ! -e $DEVICES/$GPU
	ok "its driver's files too" test ! -e /proc/driver/nvidia/gpus/$GPU
	is "$(attr 0001:12:00.0 current_link_width)" 0 "no lanes at the port"
	hgx_plug $GPU 1
	ok "it comes back" wait_until 10 test -e /proc/driver/nvidia/gpus/$GPU/information
	is "$(speed $GPU)" "32.0 GT/s PCIe x16" "with its link"
	hgx_link $NIC 0 0
	ok "a link that goes down removes a NIC" wait_until 10 test ! -e /sys/class/net/hgx0
	hgx_link $NIC 5 16
	ok "and adds it when it is up" wait_until 20 test -e /sys/class/net/hgx0
	ok "the kernel told of the one" told 'Slot(11): Card not present'
	ok "and of the other" told 'Slot(13): Link Down'
}

check_toggle()
{
	hgx_reset_counts
	hgx_toggle 19:00.0 1415 700 1 16 5 16
	is "$(hgx_toggled 20)" 1415 "1,415 changes by a timer"
	is "$(hgx_get 19:00.0 changes)" 1415 "of that link"
	hgx_link 19:00.0 5 16
}

check_reads()
{
	hgx_reset_counts
	attr 0001:89:00.0 current_link_speed >/dev/null
	attr 0001:89:00.0 current_link_width >/dev/null
	setpci -s 0001:89:00.0 CAP_EXP+10.L >/dev/null
	is "$(hgx_reads 89:00.0)" 3 "reads of Link Status are counted, once each"
	attr 0001:89:00.0 max_link_width >/dev/null
	is "$(hgx_reads 89:00.0)" 3 "others are none"
}

sleeps()
{
	[[ $(attr "$1" power/runtime_status) == suspended ]]
}

check_sleep()
{
	echo auto >$DEVICES/0001:8a:00.0/power/control
	ok "a GPU that may sleep does" wait_until 10 sleeps 0001:8a:00.0
	hgx_reset_counts
	ok "looking at that does not wake it" sleeps 0001:8a:00.0
	is "$(hgx_get 8a:00.0 reads)" 0 "nor read its configuration"
	echo on >$DEVICES/0001:8a:00.0/power/control
	is "$(attr 0001:8a:00.0 power/runtime_status)" active "it wakes"
}

link_status_is()
{
	[[ $(hgx_get "$1" link-status) == "$2" ]]
}

# 6.13+: the kernel handles bandwidth notification, and clears what it was told.
check_bandwidth()
{
	local status

	hgx_status 88:02.0 0xc000 0
	if kernel_before 6.13; then
		is "$(hgx_get 88:02.0 link-status)" f105 "LBMS and LABS stay: nobody is told before 6.13"
	else
		ok "LBMS and LABS are told and cleared" wait_until 10 \
			link_status_is 88:02.0 3105
	fi
	# What a person or the kernel commands: target speed, then Retrain Link.
	setpci -s 0001:88:02.0 CAP_EXP+30.W=3:f CAP_EXP+10.W=20:20
	status=$(hgx_get 88:02.0 link-status)
	is "${status: -3}" 103 "a retrain goes to the target speed"
	is "$(speed 0001:8b:00.0)" "8.0 GT/s PCIe x16" "at both ends"
}

# pci_events NAME TEXT: how many of a trace event have TEXT.
pci_events()
{
	grep -F "$1: 0001:88:02.0 " $TRACE/trace | grep -cF "$2" || :
}

pci_events_are()
{
	[[ $(pci_events "$1" "$2") -eq $3 ]]
}

# 7.0+ has trace events for links and slots: one for each change that hardware tells of.
check_link_events()
{
	local events what

	[[ -e $TRACE/events/pci/pcie_link_event ]] || return 0
	echo >$TRACE/trace
	echo 1 >$TRACE/events/pci/enable
	hgx_toggle 8b:00.0 200 20000 3 16 5 16 0x4000
	hgx_toggled >/dev/null
	# Those that come before the one before is handled merge, as in hardware.
	wait_until 5 pci_events_are pcie_link_event reason:3 200 || :
	events=$(pci_events pcie_link_event reason:3)
	ok "200 changes with LBMS are as many trace events: $events" \
		test "$events" -gt 180 -a "$events" -le 200
	hgx_plug 8b:00.0 0
	ok "a card that is taken out: two events" wait_until 10 \
		pci_events_are pci_hp_event event:CARD_NOT_PRESENT 1
	hgx_plug 8b:00.0 1
	ok "and one for the link of the next" wait_until 10 \
		pci_events_are pcie_link_event reason:4 1
	for what in LINK_DOWN CARD_NOT_PRESENT CARD_PRESENT LINK_UP; do
		is "$(pci_events pci_hp_event "slot:25, event:$what")" 1 "$what once"
	done
	echo 0 >$TRACE/events/pci/enable
}

check_unload()
{
	local i

	for i in 1 2; do
		hgx_unload
		is "$(find $DEVICES -name '0001:*' | wc -l)" 0 "$i: unloaded, all are gone"
		insmod "$HGX_DIR/hgx.ko"
	done
	hgx_aer $NIC cor 0x1
	ok "loaded again it works" wait_until 5 total_is $NIC correctable 1
}

hgx_load
trace_begin_instance
check_tree
check_process
check_links
if kernel_before 6.1; then
	check_silent
fi
check_correctable $GPU
check_correctable $NIC
check_unrecovered
check_burst
check_merged
check_uncorrectable
check_endurance
check_hotplug
check_toggle
check_reads
check_sleep
check_bandwidth
check_link_events
check_unload
is "$(complaints)" "" "the kernel log has no complaint"

done_testing
