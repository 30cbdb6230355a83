#!/bin/sh
# In bash's grammar for tree-sitter an argument behind a redirection is a further target of the redirection, and no
# error is told: who reads the tree finds the argument gone, and a file that nothing writes. Two here-documents of one
# command are an error to it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q tree-sitter==0.26.1 tree-sitter-bash==0.25.1
cd "$folder"
printf 'bash says: '
bash -c "printf '[%s]' one >first two && cat first"
echo
test ! -e two
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import tree_sitter_bash
from tree_sitter import Language, Parser

parser = Parser(Language(tree_sitter_bash.language()))
print("tree-sitter-bash", version("tree-sitter-bash"))


def words(text):
    root = parser.parse(text.encode()).root_node
    statement = root.children[0]
    command, redirect = statement.child_by_field_name("body"), statement.child_by_field_name("redirect")
    arguments = [each.text.decode() for each in command.children_by_field_name("argument")]
    targets = [each.text.decode() for each in redirect.children_by_field_name("destination")]
    print(text, "| arguments", arguments, "| targets", targets, "| error" if root.has_error else "| no error")
    return arguments, targets, root.has_error


assert words("printf '[%s]' one >first two") == (["'[%s]'", "one"], ["first", "two"], False), "this has changed"
assert words("printf '[%s]' one two >first") == (["'[%s]'", "one", "two"], ["first"], False), "this has changed"
both = parser.parse(b"cat <<A - <<B\none\nA\ntwo\nB\n").root_node.has_error
print("two here-documents:", "error" if both else "no error")
assert both, "this has changed"
PYTHON
