# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck shell=bash
# For tests in a guest of tests/vm/kernel: QEMU's monitor, and the devices that the guest has.
#
#   monitor COMMAND..        one command of the monitor; prints its answer
#   monitor_lines <COMMANDS  one command a line, over one connection
#   bdf_of_port SLOT         PCI address of the port with that physical slot number
#   bdf_below BDF            of the device in that port, empty without
#   aer_get BDF CLASS NAME   a counter of sysfs: correctable, nonfatal, fatal; RxErr, TLP ..
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"

VM_ASKED=0

monitor_lines()
{
	local dir=$BUILD/test-logs/monitor name status

	VM_ASKED=$((VM_ASKED + 1))
	name=$dir/$FT_TEST.$BASHPID.$VM_ASKED
	cat >"$name.new"
	mv "$name.new" "$name.ask"
	wait_until 60 test -e "$name.status" || return 1
	cat "$name.said"
	status=$(<"$name.status")
	rm "$name.said" "$name.status"
	return "$status"
}

monitor()
{
	monitor_lines <<<"$*"
}

# A port is made by QEMU in the order of its arguments; its slot's number is what tells it apart.
bdf_of_port()
{
	local address

	address=$(cat "/sys/bus/pci/slots/$1/address" 2>/dev/null) || return 1
	for dir in /sys/bus/pci/devices/*/pci_bus/"${address%:*}"; do
		basename "$(dirname "$(dirname "$dir")")"
	done
}

bdf_below()
{
	local dir

	for dir in /sys/bus/pci/devices/"$1"/????:??:??.?; do
		[[ ! -e $dir ]] || basename "$dir"
	done
}

aer_get()
{
	awk -v name="$3" '$1 == name { print $2 }' "/sys/bus/pci/devices/$1/aer_dev_$2"
}
