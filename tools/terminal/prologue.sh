# The part of `prologue.bash` that any POSIX shell can do: the folder, all variables, which of them are
# exported, and the umask outlive a call. Functions, aliases and options do not.
# The parameters are those of `prologue.bash`.

if [ -n "$5" ]; then exec <>"$5" >&0 2>&1; fi

__hermes_command=$(cat "$2") __hermes_target=$4 __hermes_options=''
if [ -f "$3" ]; then . "$3" >/dev/null 2>&1; fi
export TERM="$6"

__hermes_save() {
  if [ -n "$__hermes_target" ]; then
    (
      set +eux +C
      set -- "$__hermes_target"
      printf '%s\0%s' "$PWD" "${OLDPWD-}" >"$1.cwd"
      unset PWD OLDPWD SHLVL TERM HERMES_CALL \
        __hermes_command __hermes_target __hermes_options __hermes_code
      {
        set | sed -e '/^\(PPID\|OPTIND\|LINENO\|_\)=/d'
        export -p | sed -e 's/=.*//' -e '/^export [A-Za-z_][A-Za-z0-9_]*$/!d'
        echo "umask $(umask)"
        printf '\n%s\n' '# complete'
      } >"$1"
    ) >/dev/null 2>&1 </dev/null
    __hermes_target=''
  fi
}

__hermes_exit() {
  __hermes_code=$?
  __hermes_save
  set +e
  return "$__hermes_code"
}

__hermes_end() {
  __hermes_code=$1
  __hermes_save
  return "$__hermes_code"
}

trap '{ __hermes_exit; } 2>/dev/null' EXIT
shift "$#"
