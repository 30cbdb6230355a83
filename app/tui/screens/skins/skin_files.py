"""Writing skins of the person's own: new files, and colours changed in files that are there."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from themes.loader import builtin_names, list_skins, new_skin
from themes.skin import Skin
from themes.skin_file import UnreadableSkinError, is_name, read
from themes.skin_text import quoted
from tools.kit.files import write_new


def valid_name(text: str) -> str:
    """`text` as the name of a skin. Raises `ConfigError`."""
    name = text.strip()
    if not is_name(name):
        raise ConfigError(f"`{quoted(name)}` is no name for a skin; use letters, digits, - and _.")
    return name


def own_file(home: Home, name: str) -> Path | None:
    """The file of the person's own skin called `name`, if there is one."""
    return next((each.path for each in list_skins(home.skins) if each.own and each.name == name), None)


def hides_builtin(name: str) -> bool:
    """Whether an own skin of this name would take the place of one that comes with Hermes."""
    return name in builtin_names()


def create(home: Home, name: str, skin: Skin) -> Path:
    """Write a new skin file that looks like `skin`, and return where it is.

    Raises `ConfigError` when the name is none, when such a file is there, or when it cannot be written.
    """
    text = new_skin(valid_name(name), skin)
    taken = own_file(home, name)
    if taken is not None:
        raise ConfigError(f"{taken} is there already; choose another name or edit it.")
    private_folder(home.root)
    path = private_folder(home.skins) / f"{name}.yaml"
    try:
        write_new(path, text.encode())
    except FileExistsError:
        raise ConfigError(f"{path} is there already; choose another name or remove it.") from None
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}; free the place and try again.") from None
    return path


def replace(home: Home, name: str, skin: Skin) -> Path:
    """Write the skin file `name` anew, whatever it held, and return where it is. Raises `ConfigError`."""
    path = own_file(home, valid_name(name))
    if path is None:
        return create(home, name, skin)
    _write(path, new_skin(name, skin).encode())
    return path


def recolor(path: Path, colors: dict[str, str]) -> None:
    """Change these colours in a skin file and nothing else: comments, order and layout stay.

    Raises `ConfigError` when the file cannot be read or not be changed safely; it is untouched then.
    """
    from agent.core.config.edit import set_value

    try:
        content = read(path)
    except UnreadableSkinError as error:
        raise ConfigError(f"{path} cannot be changed: {error}.") from None
    try:
        for role, color in colors.items():
            content = set_value(content, ("colors", role), color)
    except ConfigError:
        raise ConfigError(
            f"The colours in {path.name} cannot be changed without disturbing the file; "
            "save under another name, or edit it by hand."
        ) from None
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    from tools.kit.files import write_atomically

    try:
        # A link to the file, as people have who keep their settings in a repository, stays a link.
        write_atomically(path.resolve(), content, PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}: {error.strerror or error}; free the place and try again."
        ) from None
