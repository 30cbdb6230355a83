# Stays at the far side as long as Hermes lives: tells where it is, finds and kills what calls have
# started, and when its input ends, kills the rest and takes everything of ours away.
#
#   $1 token of the markers   $2 owner of all marks   $3, $4 texts of the prologues for bash and sh
#
# Requests are lines `number verb mark pid`; each is answered by one marker with that number.

hermes_say() { printf %s%s%s%s. "$1" "$2" "$3" "$1"; }

# Living processes that carry the mark $1, stem from process $2 or are in its session: their numbers.
# The same three signs as on the own machine; each of them can be lost.
hermes_kin() {
  hermes_found=' '
  for hermes_file in $(grep -lsF "HERMES_CALL=$1" /proc/[0-9]*/environ 2>/dev/null); do
    hermes_file=${hermes_file#/proc/}
    hermes_found="$hermes_found${hermes_file%/environ} "
  done
  hermes_table=''
  for hermes_file in /proc/[0-9]*; do
    { read -r hermes_line <"$hermes_file/stat"; } 2>/dev/null || continue
    case $hermes_line in *') '*) ;; *) continue ;; esac
    hermes_child=${hermes_line%% *}
    # shellcheck disable=SC2086
    set -- "$1" "$2" ${hermes_line##*) }
    case $3 in Z | X)
      case $hermes_found in
        *" $hermes_child "*) hermes_found="${hermes_found%% "$hermes_child" *} ${hermes_found#* "$hermes_child" }" ;;
      esac
      continue
      ;;
    esac
    if [ "$hermes_child" = "$2" ] || [ "$6" = "$2" ]; then
      case $hermes_found in *" $hermes_child "*) ;; *) hermes_found="$hermes_found$hermes_child " ;; esac
    fi
    hermes_table="$hermes_table $hermes_child $4"
  done
  hermes_grown=1
  while [ -n "$hermes_grown" ]; do
    hermes_grown=''
    # shellcheck disable=SC2086
    set -- $hermes_table
    while [ $# -gt 1 ]; do
      case $hermes_found in
        *" $1 "*) ;;
        *" $2 "*) hermes_found="$hermes_found$1 " hermes_grown=1 ;;
      esac
      shift 2
    done
  done
}

hermes_signal() {
  for hermes_one in $hermes_found; do kill -s "$1" "$hermes_one" 2>/dev/null; done
}

hermes_kill() {
  if [ ! -d /proc/self ]; then
    if [ -n "$2" ]; then
      kill -s TERM "-$2" 2>/dev/null
      sleep 1
      kill -s KILL "-$2" 2>/dev/null
    fi
    return
  fi
  hermes_kin "$1" "$2"
  hermes_signal TERM
  hermes_signal CONT
  for hermes_round in 1 2 3 4 5; do
    if [ "$hermes_found" = ' ' ]; then return; fi
    sleep 0.02 2>/dev/null || sleep 1
    hermes_kin "$1" "$2"
  done
  for hermes_round in 1 2 3 4 5 6 7 8 9 10; do
    if [ "$hermes_found" = ' ' ]; then return; fi
    hermes_signal KILL
    hermes_kin "$1" "$2"
  done
}

hermes_list() {
  hermes_kin "$1" "$2"
  for hermes_one in $hermes_found; do
    hermes_name='?'
    { read -r hermes_name <"/proc/$hermes_one/comm"; } 2>/dev/null
    printf '%s %s/' "$hermes_one" "$hermes_name"
  done
}

hermes_end() {
  hermes_kill "$hermes_owner." ''
  cd /
  if [ "$hermes_folder" ]; then rm -rf "$hermes_folder"; fi
}

hermes_token=$1 hermes_owner=$2 hermes_code=
umask 077
unset CDPATH
hermes_folder=
trap hermes_end EXIT
trap 'exit 143' TERM
# A connection that is cut ends the reading below, and so everything; no signal may come before that.
trap '' HUP INT PIPE
if ! hermes_folder=$(mktemp -d "${TMPDIR:-/tmp}/hermes.XXXXXXXX" 2>/dev/null); then
  hermes_say "$1" x ''
  exit 1
fi
printf %s "$3" >"$hermes_folder/prologue.bash"
printf %s "$4" >"$hermes_folder/prologue.sh"
hermes_shell=$(command -v bash) || hermes_shell=$(command -v sh)
hermes_say "$1" a "$hermes_shell:$hermes_folder:$(uname -n)"
set --
while read -r hermes_number hermes_verb hermes_mark hermes_root; do
  case $hermes_verb in
    kill)
      # The middle of a mark is the number of its call.
      hermes_call=${hermes_mark#*.}
      : >"$hermes_folder/${hermes_call%.}.stop"
      hermes_kill "$hermes_mark" "$hermes_root"
      hermes_say "$hermes_token" d "$hermes_number "
      ;;
    list) hermes_say "$hermes_token" d "$hermes_number $(hermes_list "$hermes_mark" "$hermes_root")" ;;
    bye) exit 0 ;;
  esac
done
exit 0
