# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# bash completion for fabrictrace
_fabrictrace()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i
	local options='--pid --no-children --cgroup --all --duration --collectives --pcie-interval --json
		--quiet --verbose --no-color --help'

	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			COMP_WORDS=("${COMP_WORDS[@]:i+1}")
			COMP_CWORD=$((COMP_CWORD - i - 1))
			if ((COMP_CWORD == 0)); then
				COMPREPLY=($(compgen -c -- "$cur"))
			else
				COMPREPLY=($(compgen -f -- "$cur"))
			fi
			return
		fi
	done
	case $prev in
	-p | --pid)
		COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur"))
		;;
	--cgroup)
		[[ $cur == /sys/fs/cgroup/* ]] || cur=/sys/fs/cgroup/${cur#/}
		compopt -o nospace 2>/dev/null
		COMPREPLY=($(compgen -d -S / -- "$cur"))
		;;
	--root)
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -d -- "$cur"))
		;;
	-d | --duration | --pcie-interval)
		COMPREPLY=()
		;;
	*)
		case ${COMP_WORDS[1]} in
		probes) options='--json --verbose --help' ;;
		topo) options='--pid --no-children --cgroup --verbose --json --root --help' ;;
		schema) options='--help' ;;
		*) ((COMP_CWORD > 1)) || options+=' trace probes topo schema --version' ;;
		esac
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
		;;
	esac
}
complete -F _fabrictrace fabrictrace
