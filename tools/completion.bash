# SPDX-License-Identifier: Apache-2.0
# bash completion of ptio, ptiofs and ptiod: what can be given is what their own help says, and names are those that the store has.

# Sets words and cur, the words of the line up to the cursor and the last of them, whole; bash itself cuts them at = and :.
_ptio_words() {
	local line=${COMP_LINE:0:COMP_POINT}

	read -a words <<<"$line"        # takes backslashes away
	[[ $line == *[[:space:]] && $line != *\\[[:space:]] ]] && words+=("")
	cur=${words[-1]}
}

# The word may be one of these, one a line. bash replaces what follows its last = or :.
_ptio_offer() {
	local word cut=${cur%"${cur##*[=:]}"}

	COMPREPLY=()
	while IFS= read -r word; do
		[[ $word && $word == "$cur"* ]] || continue
		word=${word#"$cut"}
		[[ $word == *[!A-Za-z0-9_./,=:+@%-]* ]] && word=$(printf '%q' "$word")
		COMPREPLY+=("$word")
	done <<<"$1"
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
	return 0
}

# Files, or with -d directories, of this machine.
_ptio_files() {
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen "${1:--f}" -- "${cur##*[=:]}")
}

# Keys, layouts and files of the store that the line names, or PTIO_STORE.
_ptio_names() {
	local folder=

	[[ $cur == */* ]] && folder=${cur%/*}/
	_ptio_offer "$("$@" ls ${folder:+"$folder"} 2>/dev/null </dev/null | sed "s|^|${folder//|/\\|}|")"
}

# The options that a text shows.
_ptio_options() {
	grep -oE '(^|[[ ,])--?[A-Za-z][a-z-]*=?' | tr -d '[, '
}

_ptio() {
	local cur command= at=1
	local -a words ptio=("$1")

	_ptio_words
	for (( ; at < ${#words[@]} - 1; at++)); do
		case ${words[at]} in
		-s|--store|--secret-file)
			ptio+=("${words[at]}" "${words[at + 1]}")
			at=$((at + 1))
			;;
		-*) ptio+=("${words[at]}") ;;
		*)
			command=${words[at]}
			break
			;;
		esac
	done
	if [[ $cur == --store=* || $cur == --secret-file=* || (-z $command && ${words[-2]} == @(-s|--store|--secret-file)) ]]; then
		_ptio_files
	elif [[ -z $command && $cur == -* ]]; then
		_ptio_offer "$("$1" --help | sed '/^Commands:/,$d' | _ptio_options)"
	elif [[ -z $command ]]; then
		_ptio_offer "$("$1" --help | sed '1,/^Commands:/d' | awk '/^  [a-z]/ { print $1 }')"
	elif [[ $cur == -* ]]; then
		_ptio_offer "$("$1" "$command" --help | sed "s/^.* $command//; q" | _ptio_options)"
	elif [[ $command == @(fsck|warm) || ($command == put && $at -eq $((${#words[@]} - 2))) ]]; then
		_ptio_files
	else
		_ptio_names "${ptio[@]}"
	fi
}

_ptiofs() {
	local cur before=
	local -a words

	_ptio_words
	[[ $cur == *,* ]] && before=${cur%,*},
	if [[ ${words[-2]} == -o ]]; then
		_ptio_offer "$("$1" -h | sed -n '/^options/,/^$/p' | awk -v before="$before" '/^    [a-z]/ { print before $1 }')"
	elif [[ $cur == -* ]]; then
		_ptio_offer $'-f\n-d\n-h\n-V\n-o'
	else
		_ptio_files -d
	fi
}

_ptiod() {
	local cur
	local -a words

	_ptio_words
	if [[ $cur == -* ]]; then
		_ptio_offer "$("$1" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p')"
	else
		_ptio_files
	fi
}

complete -F _ptio ptio
complete -F _ptiofs ptiofs
complete -F _ptiod ptiod
