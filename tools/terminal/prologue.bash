# Sourced by the bash of every call, before the command: brings back the state the last call left
# and sees to it that the state this call leaves is written down, however the command ends.
#
#   $2  file that holds the command
#   $3  state file of the last call; may be missing
#   $4  where to write the new state; empty = nowhere
#   $5  terminal to run on; empty = the descriptors are right already
#   $6  value of TERM
#
# Variables and functions called __hermes_* are never part of the state.

# A session leader without a terminal gets the first one it opens as its controlling terminal.
if [ -n "$5" ]; then exec <>"$5" >&0 2>&1; fi

__hermes_command=$(<"$2") __hermes_target=$4 __hermes_options=''
# Aliases work as they would at a prompt.
shopt -s expand_aliases
if [ -f "$3" ]; then . "$3" >/dev/null 2>&1; fi
builtin export TERM=$6

# Runs in a subshell of the dying shell, so that clearing up here disturbs nothing.
# Order matters when the file is read: a function may take the name of a builtin, an alias that of
# anything, and how a function is read depends on `shopt`.
__hermes_write() {
  __hermes_options=$SHELLOPTS
  builtin set +o errexit +o nounset +o xtrace +o verbose +o noclobber +o posix
  builtin unset -f trap __hermes_write __hermes_save __hermes_exit __hermes_end __hermes_trap
  builtin printf '%s\0%s' "$PWD" "${OLDPWD-}" >"$__hermes_target.cwd"
  {
    # Values that belong to one process only. What cannot be unset is readonly and ignored when read.
    builtin unset -v RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO BASHPID BASH_COMMAND _ \
      BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_ALIASES BASH_EXECUTION_STRING BASH_SUBSHELL DIRSTACK \
      FUNCNAME GROUPS HISTCMD OPTERR OPTIND PIPESTATUS SHLVL TERM COLUMNS LINES PWD OLDPWD HERMES_CALL \
      __hermes_command __hermes_target __hermes_code __hermes_at_exit
    builtin printf 'unset -v PATH\n'
    builtin shopt -p
    builtin umask -p
    builtin declare -p
    builtin declare -f
    builtin declare -F
    builtin alias -p
    builtin printf '\n%s\n' '# complete'
  } >"$__hermes_target"
}

__hermes_save() {
  if [[ -n $__hermes_target ]]; then
    (__hermes_write) >/dev/null 2>&1 </dev/null
    __hermes_target=''
  fi
}

# First part of the exit trap. Passes the exit code on to the command's own exit trap, if it set one.
__hermes_exit() {
  __hermes_code=$?
  __hermes_save
  builtin set +o errexit
  return "$__hermes_code"
}

# The last thing after the command, for commands that took the exit trap away in some other way.
__hermes_end() {
  __hermes_code=$1
  __hermes_save
  builtin set +o verbose
  return "$__hermes_code"
}

__hermes_trap() {
  if ((BASH_SUBSHELL > 0 || $# == 0)) || [[ $1 == -[lp]* ]]; then
    builtin trap "$@"
    return
  fi
  [[ $1 == -- ]] && shift
  local __hermes_action=- __hermes_signal
  if (($# > 1)); then
    __hermes_action=$1
    shift
  fi
  for __hermes_signal in "$@"; do
    case $__hermes_signal in
      0 | [Ee][Xx][Ii][Tt] | SIGEXIT)
        [[ $__hermes_action == - ]] && __hermes_action=''
        builtin trap "$__hermes_at_exit$__hermes_action" EXIT
        ;;
      *) builtin trap -- "$__hermes_action" "$__hermes_signal" ;;
    esac
  done
  return 0
}

# A function in place of the builtin changes RETURN traps a little, so it is there only when needed.
case $__hermes_command in
  *trap*[Ee][Xx][Ii][Tt]* | *trap*' 0'*) trap() { __hermes_trap "$@"; } ;;
esac

# Errors go nowhere here only because `set -x` would show our own work.
__hermes_at_exit=$'{ __hermes_exit; } 2>/dev/null\n'
builtin trap "$__hermes_at_exit" EXIT

# `set` options come last and on the line of the command: from here on nothing of ours runs under them.
if [[ -n $__hermes_options ]]; then
  __hermes_options=:$__hermes_options:
  for __hermes_code in history emacs vi onecmd noexec; do
    __hermes_options=${__hermes_options/:$__hermes_code:/:}
  done
  __hermes_options=${__hermes_options#:} __hermes_options=${__hermes_options%:}
  __hermes_options="set +o braceexpand +o hashall +o interactive-comments -o ${__hermes_options//:/ -o };"
fi
shift "$#"
