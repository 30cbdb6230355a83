# Sourced by `pyenv exec` inside the boundary, where shims are read-only: pip would end with 1 after it installed.
pyenv-rehash() { :; }
export -f pyenv-rehash
