# Completion of stile for bash 4 and later, without the package bash-completion.

_stile() {
    local line=${COMP_LINE:0:COMP_POINT} word current out directive i
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${words[-1]}

    # What follows -- is another command.
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if [[ ${words[i]} == -- ]]; then
            compopt -o default 2>/dev/null
            ((i == ${#words[@]} - 2)) && mapfile -t COMPREPLY < <(compgen -c -- "$current")
            return
        fi
    done

    out=$("$1" __completeNoDesc "${words[@]:1}" 2>/dev/null) || return
    directive=${out##*:} out=${out%:*}
    ((directive & 2)) && compopt -o nospace 2>/dev/null
    ((directive & 4)) || compopt -o default 2>/dev/null

    # Bash replaces only what follows the last = or : of the word, if these break words for it.
    local kept=
    [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && kept=${current%=*}=
    [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && kept=${current%:*}:
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -n $word && $word == "$current"* ]] && COMPREPLY+=("${word#"$kept"}")
    done <<<"$out"
}

complete -F _stile stile
