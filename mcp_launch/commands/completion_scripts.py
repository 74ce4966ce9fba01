"""Scripts that make a shell ask `mcp-launch complete-words` what may come next.

Names come from files, so they are only ever data: nothing here evaluates them.
"""

from __future__ import annotations

_BASH = """\
_mcp_launch() {
    # The word at the cursor ends there, and bash has divided words at = and :.
    local line="${COMP_LINE:0:COMP_POINT}" word about prefix
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    prefix="${words[-1]}"
    COMPREPLY=()
    while IFS=$'\\t' read -r word about; do
        case "$word" in
            :files) compopt -o default ;;
            :programs) mapfile -t COMPREPLY < <(compgen -c -- "$prefix") ;;
            *) printf -v word %q "$word"; COMPREPLY+=("$word") ;;
        esac
    done < <(mcp-launch complete-words "${words[@]:1}" 2>/dev/null)
    # Readline replaces only what follows the last = or :.
    local -i cut=$(( ${#prefix} - ${#2} ))
    if (( cut > 0 )) && [[ $prefix == *[=:]* ]]; then
        COMPREPLY=("${COMPREPLY[@]:+${COMPREPLY[@]#"${prefix:0:cut}"}}")
    fi
}
complete -F _mcp_launch mcp-launch
"""

_ZSH = """\
#compdef mcp-launch

_mcp_launch() {
    local line word
    local -a found
    for line in "${(@f)$(mcp-launch complete-words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        word="${line%%$'\\t'*}"
        case "$word" in
            '') ;;
            :files) _files ;;
            :programs) _command_names -e ;;
            *) found+=("${word//:/\\\\:}:${line#*$'\\t'}") ;;
        esac
    done
    (( $#found )) && _describe -V 'mcp-launch' found
}

if [ "$funcstack[1]" = "_mcp-launch" ]; then
    _mcp_launch "$@"
else
    compdef _mcp_launch mcp-launch
fi
"""

_FISH = """\
function __mcp_launch_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (mcp-launch complete-words $words[2..-1] 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path (commandline -ct)
            case ':programs*'
                complete -C (commandline -ct)
            case '*'
                printf '%s\\n' $line
        end
    end
end
complete -c mcp-launch -f -a '(__mcp_launch_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
