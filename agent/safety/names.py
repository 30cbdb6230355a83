"""Names of programs that the hardline and self-protection know."""

from __future__ import annotations

from agent.safety.reader.marks import words

DELETERS = words("rm srm wipe trash rmtrash del grm unlink")
OWNERS = words("chmod chown chgrp chattr setfacl chflags gchmod gchown")
WRITERS = words("tee cp mv install ln rsync truncate sed perl sponge scp")
