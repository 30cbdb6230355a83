# Runs one command at the far side. It comes with the function `hermes_env`, which exports the
# environment, and these parameters:
#
#   $1 token of the markers   $2 our folder here       $3 number of the call    $4 folder to run in
#   $5 name of the state      $6 1 = keep new state    $7 none, pipe or pty     $8 path of the shell
#   $9 the command            ${10} mark               ${11} first line of the shell
#
# The markers it prints are `token KIND payload token .`; see `markers.py`.

hermes_token=$1 hermes_files=$2/$3 hermes_state=$2/$5.state hermes_input=$7 hermes_shell=$8
hermes_mark=${10} hermes_start=${11} hermes_prologue=$2/prologue hermes_new=''

hermes_run() {
  hermes_env
  HERMES_CALL=$hermes_mark
  export HERMES_CALL
  case $hermes_shell in */bash) hermes_name=bash ;; *) hermes_name=sh ;; esac
  if [ "$hermes_input" != pty ] && command -v setsid >/dev/null 2>&1; then
    set -- setsid "$hermes_shell"
  else
    set -- "$hermes_shell"
  fi
  # Whoever stops this call leaves a file first and looks for marked processes then: nobody slips through.
  # The number is written last, by the process that becomes the shell.
  exec sh -c '
    if [ -e "$1.stop" ]; then exit 143; fi
    printf %s "$$" >"$1.pid"
    printf %s%s%s%s. "$2" s "$$" "$2"
    shift 2
    exec "$@"' sh "$hermes_files" "$hermes_token" "$@" -c "$hermes_start" "$hermes_name" \
    "$hermes_prologue.$hermes_name" "$hermes_files.command" "$hermes_state" "$hermes_new" '' "$hermes_term"
}

unset CDPATH
# A folder of the home is only known here.
# shellcheck disable=SC2088
case $4 in
  '~') hermes_cwd=$HOME ;;
  '~/'*) hermes_cwd=$HOME/${4#??} ;;
  *) hermes_cwd=$4 ;;
esac
if ! cd -- "$hermes_cwd" 2>/dev/null; then
  printf %s%s%s. "$1" x "$1"
  exit 0
fi
hermes_umask=$(umask)
umask 077
printf %s "$9" >"$hermes_files.command"
if [ -n "$6" ]; then
  hermes_new=$hermes_files.state
  : >"$hermes_new"
  : >"$hermes_new.cwd"
fi
umask "$hermes_umask"
hermes_term=dumb
if [ "$hermes_input" = pty ]; then
  hermes_term=xterm-256color
  stty sane rows 40 cols 120
fi
# Keys that interrupt are for the command; a handled signal is back to normal in a child.
trap : INT QUIT TSTP

# A shell that is killed would be remarked upon.
exec 2>/dev/null
case $hermes_input in
  pty) (hermes_run) 2>&1 ;;
  pipe) (hermes_run) 2>&1 ;;
  *) (hermes_run) </dev/null 2>&1 ;;
esac
hermes_code=$?

if [ -t 0 ]; then stty raw -echo; fi
hermes_alive=0
if read -r hermes_pid <"$hermes_files.pid" || [ -n "$hermes_pid" ]; then
  if kill -0 "-$hermes_pid"; then hermes_alive=1; fi
fi
printf '%s%s%s %s ' "$hermes_token" e "$hermes_code" "$hermes_alive"
if [ -n "$hermes_new" ] && [ "$(tail -n 1 "$hermes_new")" = '# complete' ]; then
  mv -f "$hermes_new" "$hermes_state"
  cat "$hermes_new.cwd"
fi
printf %s. "$hermes_token"
rm -f "$hermes_files.command" "$hermes_files.state" "$hermes_files.state.cwd" "$hermes_files.pid" "$hermes_files.stop"
exit 0
