#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The simulated GPU node, for tests of tests/vm after tests/e2e/lib.sh. In domain 0001: per NUMA node
# two switches, below each 2 GPUs and 2 NICs, all links Gen5 x16, slots 11 to 26 at the lower ports:
#
#   root port 10:00.0  switch 11:00.0  ports 12:00.0-03.0  GPU 0 13:00.0  GPU 1 14:00.0  NICs 15, 16
#   root port 10:01.0  switch 17:00.0  ports 18:00.0-03.0  GPU 2 19:00.0  GPU 3 1a:00.0  NICs 1b, 1c
#   root port 80:00.0  switch 81:00.0  ports 82:00.0-03.0  GPU 4 83:00.0  GPU 5 84:00.0  NICs 85, 86
#   root port 80:01.0  switch 87:00.0  ports 88:00.0-03.0  GPU 6 89:00.0  GPU 7 8a:00.0  NICs 8b, 8c
#
# NICs have network devices hgx0 to hgx7. A process with /dev/nvidiaN open (hgx_load makes them) uses
# GPU N. A BDF may be given without its domain. Numbers are decimal, or hexadecimal with 0x.
#
#   hgx_load; hgx_unload             the module of tests/vm/hgx/build; skips the test if there is none
#   hgx_link BDF GEN WIDTH [both|port|device]    the link, named by any end; 0 0: down
#   hgx_cap BDF GEN WIDTH            what that end says it can; found anew, the link at its best
#   hgx_status BDF SET CLEAR         bits of Link Status: LT 0x800, LBMS 0x4000, LABS 0x8000
#   hgx_gone BDF 0|1                 all-ones from it and from what is below it
#   hgx_plug BDF 0|1                 taken out of its slot, put in
#   hgx_aer BDF cor|uncor STATUS [COUNT [HEADER x4]]   none merges: returns when the last is sent
#   hgx_report BDF                   error reporting on, as a driver may: 5.10 has it on for root
#                                    ports (and the NICs here) only, 6.1 for all
#   hgx_message BDF cor|uncor STATUS   one, at once: may merge with others
#   hgx_config BDF OFFSET VALUE      32 bits of configuration space
#   hgx_toggle BDF COUNT US GEN WIDTH GEN WIDTH [BITS]   COUNT changes, one each US, from a timer
#   hgx_toggled                      waits for its end; prints how many there were
#   hgx_reset_counts
#   hgx_get BDF FIELD                kind index slot above link-status gone reads link-reads messages
#                                    changes
#   hgx_reads BDF                    how often the kernel read its Link Status
#   hgx_messages BDF                 error messages that it sent
#   hgx_bdf gpu|nic N;  hgx_port BDF   BDF of a device; of the port above
# The commands are explained in control.c.

HGX=/sys/kernel/debug/hgx
HGX_DIR=$BUILD/tests/vm/hgx/${FT_VM_KERNEL-}

hgx_full()
{
	[[ $1 == *:*:* ]] && echo "$1" || echo "0001:$1"
}

# hgx_do COMMAND BDF ARGS..
hgx_do()
{
	echo "$1 $(hgx_full "$2") ${*:3}" >$HGX/control
}

hgx_link() { hgx_do link "$@"; }
hgx_status() { hgx_do status "$@"; }
hgx_gone() { hgx_do gone "$@"; }
hgx_plug() { hgx_do plug "$@"; }
hgx_aer() { hgx_do aer "$@"; }
hgx_message() { hgx_do message "$@"; }
hgx_config() { hgx_do config "$@"; }
hgx_toggle() { hgx_do toggle "$@"; }
hgx_reset_counts() { echo reset-counts >$HGX/control; }

# The kernel remembers what an end can: it has to find it anew, with what is below it.
hgx_cap()
{
	hgx_do cap "$@"
	echo 1 >"/sys/bus/pci/devices/$(hgx_full "$1")/remove"
	echo 1 >/sys/bus/pci/rescan
}

hgx_report()
{
	setpci -s "$(hgx_full "$1")" CAP_EXP+8.W=f:f
}

hgx_load()
{
	local i

	[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
	[[ -e $HGX_DIR/hgx.ko ]] ||
		skip_all "no simulated node: $(cat "$HGX_DIR/missing" 2>/dev/null || echo "not built")"
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	insmod "$HGX_DIR/hgx.ko"
	for i in {0..7}; do
		[[ -e /dev/nvidia$i ]] || mknod -m 666 "/dev/nvidia$i" c 195 "$i"
	done
	at_exit hgx_unload
}

# To be loaded anew by the next test, whatever was done to it.
hgx_unload()
{
	[[ ! -e $HGX ]] || rmmod hgx
}

hgx_get()
{
	awk -v bdf="$(hgx_full "$1")" -v want="$2" '
	/^#/ { for (i = 2; i <= NF; i++) column[$i] = i - 1; next }
	$1 == bdf { print $column[want] }' $HGX/functions
}

hgx_reads() { hgx_get "$1" link-reads; }
hgx_messages() { hgx_get "$1" messages; }
hgx_port() { hgx_get "$1" above; }

hgx_bdf()
{
	awk -v kind="$1" -v index_="$2" '$2 == kind && $3 == index_ { print $1 }' $HGX/functions
}

hgx_toggle_done()
{
	local changed wanted

	read -r changed wanted <$HGX/toggle
	[[ $changed -eq $wanted ]]
}

hgx_toggled()
{
	wait_until "${1-120}" hgx_toggle_done || :
	cut -d' ' -f1 $HGX/toggle
}
