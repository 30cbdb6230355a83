"""Skin files as people write them: right, half right, broken and hostile."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themes.colors import normalize_color
from themes.loader import MAX_BYTES, LoadedSkin, builtin_names, list_skins, load_file, load_skin, new_skin
from themes.skin import ROLES, Skin

Write = Callable[..., LoadedSkin]


@pytest.fixture
def load(tmp_path: Path) -> Write:
    """Writes a skin file and loads it."""

    def write(text: str | bytes, name: str = "mine") -> LoadedSkin:
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_skin(name, tmp_path)

    return write


def harmless(text: str) -> bool:
    """Whether nothing in `text` can steer a terminal, break a line or turn its direction."""
    return not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text)


def told(loaded: LoadedSkin) -> list[str]:
    return [str(problem) for problem in loaded.problems]


def test_a_skin_says_what_differs_and_the_rest_is_the_default(load: Write) -> None:
    loaded = load(
        'description: Mine\ncolors:\n  accent: "#ABC"\n  error: ansi_bright_red\nverbs: [Yes, No]\n'
    )
    assert loaded.problems == ()
    assert loaded.skin.name == "mine"
    assert loaded.skin.description == "Mine"
    assert loaded.skin.colors == {**Skin().colors, "accent": "#aabbcc", "error": "ansi_bright_red"}
    assert loaded.skin.verbs == ("Yes", "No")
    assert loaded.skin.spinner == Skin().spinner


def test_an_empty_file_is_the_default_skin_under_its_own_name(load: Write) -> None:
    for text in ("", "---\n", "# nothing\n", "{}"):
        loaded = load(text)
        assert loaded.problems == (), text
        assert loaded.skin.colors == Skin().colors


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("colors:\n  acent: '#fff'", "mine.yaml:2: `acent` is not a role of a skin; did you mean `accent`?"),
        (
            "colors:\n  accent: #fff",
            'mine.yaml:2: `colors.accent` is empty; a colour needs quotes: "#rrggbb".',
        ),
        ("colors:\n  accent: ff0000", 'mine.yaml:2: `colors.accent`: `ff0000` lacks its #; write "#ff0000".'),
        ("colors:\n  dim: 123456", 'mine.yaml:2: `colors.dim`: `123456` lacks its #; write "#123456".'),
        (
            "colors:\n  dim: red",
            "mine.yaml:2: `colors.dim`: `red` is not a colour; the terminal's own is `ansi_red`.",
        ),
        (
            "colors:\n  dim: ansi_rad",
            "mine.yaml:2: `colors.dim`: `ansi_rad` is not a colour of the terminal; did you mean `ansi_red`?",
        ),
        (
            "colors:\n  dim: '#11223344'",
            "mine.yaml:2: `colors.dim`: `#11223344` has too many digits; colours are opaque: `#112233`.",
        ),
        (
            "colors:\n  dim: mauve",
            'mine.yaml:2: `colors.dim`: `mauve` is not a colour; write "#rrggbb" or a colour of the terminal '
            "such as `ansi_red`.",
        ),
        ("colors:\n  dim: [a]", "mine.yaml:2: `colors.dim` must be one colour."),
        ("colors: blue", "mine.yaml:1: `colors` must be a section of `role: colour` lines."),
        ("colours:\n  a: b", "mine.yaml:1: `colours` is nothing a skin has; did you mean `colors`?"),
        ("\nverbs: Thinking", 'mine.yaml:2: `verbs` must be a list such as ["a", "b"].'),
        ("verbs: []", "mine.yaml:1: `verbs` is an empty list; leave it out for the default."),
        ("verbs:\n  - [a]", "mine.yaml:2: `verbs` must be text."),
        ("dark: perhaps", "mine.yaml:1: `dark` must be true or false."),
        ("welcome: [hi]", "mine.yaml:1: `welcome` must be text."),
        (
            "welcome:",
            'mine.yaml:1: `welcome` is empty; leave it out for the default, or write "" for nothing.',
        ),
        ("prompt_symbol: '>>>>>'", "mine.yaml:1: `prompt_symbol`: `>>>>>` is wider than 4 columns."),
        ("prompt_symbol: ' '", "mine.yaml:1: `prompt_symbol` needs something that can be seen."),
        ("spinner: [a, 漢]", "mine.yaml:1: the frames of `spinner` are not equally wide."),
        ("tool_icons: yes", "mine.yaml:1: `tool_icons` must be a section of `tool: glyph` lines."),
        ("tool_icons:\n  read: abc", "mine.yaml:2: `tool_icons.read`: `abc` is wider than 2 columns."),
        ("banner: [a]", "mine.yaml:1: `banner` must be text; begin it with `banner: |`."),
        ("base: nigth", "mine.yaml:1: `base: nigth` is not a built-in skin; did you mean `night`?"),
        ("name: other", "mine.yaml:1: the skin is called `mine` like its file, not `other`."),
        ("welcome: a\nwelcome: b", "mine.yaml:2: `welcome` is given twice; the one on line 1 counts."),
        ("? [a]\n: b", "mine.yaml:1: a key must be a word."),
        ("branding: x", "mine.yaml:1: `branding` must be a section of `key: value` lines."),
        (
            "branding:\n  welcom: x",
            "mine.yaml:2: `welcom` is nothing that `branding` has; did you mean `welcome`?",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(load: Write, text: str, sentence: str) -> None:
    assert told(load(text)) == [sentence]


def test_one_mistake_costs_one_part_only(load: Write) -> None:
    loaded = load(
        'colors:\n  accent: nope\n  text: "#eeeeee"\n'
        "welcome: [1]\ngoodbye: Bye\nspinner: [aaaa]\nverbs: [Hm, [x]]\n"
    )
    assert len(loaded.problems) == 4
    assert loaded.skin.colors["accent"] == Skin().colors["accent"]
    assert loaded.skin.colors["text"] == "#eeeeee"
    assert (loaded.skin.welcome, loaded.skin.goodbye) == (Skin().welcome, "Bye")
    assert loaded.skin.spinner == Skin().spinner
    assert loaded.skin.verbs == ("Hm",)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &x [1]\nb: *x", "anchors and aliases"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]", "anchors and aliases"),
        ("name: !!python/object/apply:os.system ['true']", "tags"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested deeper"),
        ("a: [" + "x," * 5000 + "]", "more than 4,000 values"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("colors:\n\taccent: x", "indented with a tab"),
        ("a: [1, 2", "this is not YAML"),
        ("just words", "this is not a skin"),
        ("- a\n- b", "this is not a skin"),
        ("a: 'open", "this is not YAML"),
        ("%YAML 9.9\n---\na: b", "this is not YAML"),
    ],
)
def test_what_is_no_skin_or_hostile_is_refused_whole(load: Write, text: str, part: str) -> None:
    loaded = load(text)
    assert len(loaded.problems) == 1
    assert part in loaded.problems[0].message
    assert loaded.skin.colors == Skin().colors
    assert loaded.skin.welcome == Skin().welcome


def test_control_bytes_never_reach_a_text(load: Write) -> None:
    loaded = load(
        'welcome: "a\\e[31mb\\e]0;title\\ac\\u202Ed\\0"\nverbs: ["\\e[2J"]\nbanner: "x\\e[1my\\nz"\n'
    )
    assert loaded.skin.welcome == "abcd"
    assert loaded.skin.verbs == Skin().verbs
    assert loaded.skin.banner == "xy\nz"
    assert "`welcome` held characters that cannot be shown; they are left out." in told(loaded)[0]


def test_raw_control_bytes_and_foreign_encodings_cost_nothing_else(load: Write) -> None:
    loaded = load(b"welcome: a\x1bb\ngoodbye: caf\xe9\ncolors:\n  accent: '#123456'\n")
    assert loaded.skin.colors["accent"] == "#123456"
    assert loaded.skin.welcome == "ab"
    assert told(loaded) == [
        "mine.yaml:1: the control character U+001B stands here and is left out.",
        "mine.yaml:2: this byte is not UTF-8 and is replaced; save the file as UTF-8.",
    ]


def test_line_ends_and_a_byte_order_mark_do_not_matter(load: Write) -> None:
    assert load(b"\xef\xbb\xbfwelcome: a\r\ngoodbye: b\r\n").skin.goodbye == "b"
    assert told(load("welcome: a\r\rgoodbye: [1]\r")) == ["mine.yaml:3: `goodbye` must be text."]


def test_long_things_are_bounded(load: Write) -> None:
    loaded = load(f"welcome: {'w' * 500}\nverbs: [{'v,' * 200}]\nbanner: {'b' * 500}\n")
    assert loaded.skin.welcome == "w" * 200
    assert len(loaded.skin.verbs) == 64
    assert loaded.skin.banner == ""
    assert len(loaded.problems) == 3


def test_a_banner_keeps_its_shape(load: Write) -> None:
    assert load("banner: |2\n   /\\\n  /  \\   \n\n").skin.banner == " /\\\n/  \\"


def test_a_light_skin_that_says_little_still_has_dark_text(load: Write) -> None:
    paper = load_skin("paper").skin
    for text in ("dark: false", 'colors:\n  background: "#ffffff"'):
        skin = load(text).skin
        assert not skin.dark, text
        assert skin.colors["text"] == paper.colors["text"], text
        assert skin.welcome == Skin().welcome


def test_whether_a_skin_is_dark_is_seen_from_its_background(load: Write) -> None:
    assert load('base: paper\ncolors:\n  background: "#101010"').skin.dark
    assert not load('base: night\ncolors:\n  background: "#f0f0f0"').skin.dark
    assert load("base: mono").skin.dark


def test_a_base_gives_everything_a_skin_does_not_say(load: Write) -> None:
    tide = load_skin("tide").skin
    skin = load("base: tide\nwelcome: Ahoy").skin
    assert (skin.name, skin.welcome) == ("mine", "Ahoy")
    assert (skin.colors, skin.spinner, skin.verbs) == (tide.colors, tide.spinner, tide.verbs)


REFERENCE = """
name: mine
description: As other editions write it
colors:
  banner_title: "#FFD700"
  ui_accent: "#111111"
  banner_dim: "#B8860B"
  banner_text: "#FFF8DC"
  banner_border: "#010101"
  response_border: "#CD7F32"
  ui_ok: "#4caf50"
  ui_error: "#ef5350"
  ui_warn: "#ffa726"
  prompt: "#fff8dd"
  status_bar_bg: "#1a1a2e"
  selection_bg: "#333355"
  voice_status_bg: "#1a1a2e"
spinner:
  waiting_faces: ["(⚔)"]
  thinking_faces: ["(⚔)", "(⛨)"]
  thinking_verbs: [forging, "marching"]
  wings: [["⟪⚔", "⚔⟫"]]
branding:
  agent_name: "Ares Agent"
  welcome: "Welcome!"
  goodbye: "Farewell!"
  response_label: " ⚔ Ares "
  prompt_symbol: "⚔ ❯ "
  help_header: "(⚔) Commands"
tool_prefix: "╎"
tool_emojis:
  terminal: "⚔"
banner_logo: |
  [bold #A3261F]ARES[/]
banner_hero: |
  [#9F1C1C] /\\ [/][dim]x[/dim]
"""


def test_a_skin_of_another_edition_is_read_without_complaint(load: Write) -> None:
    loaded = load(REFERENCE)
    skin = loaded.skin
    assert told(loaded) == []
    expected = {
        "accent": "#ffd700",
        "dim": "#b8860b",
        "text": "#fff8dc",
        "rule": "#cd7f32",
        "success": "#4caf50",
        "error": "#ef5350",
        "warning": "#ffa726",
        "user": "#fff8dd",
        "surface": "#1a1a2e",
        "selection": "#333355",
    }
    assert {role: skin.colors[role] for role in expected} == expected
    assert skin.faces == ("(⚔)", "(⛨)")
    assert skin.verbs == ("forging", "marching")
    assert skin.spinner == Skin().spinner
    assert (skin.agent_name, skin.welcome, skin.goodbye) == ("Ares Agent", "Welcome!", "Farewell!")
    assert skin.prompt_symbol == "⚔ ❯"
    assert skin.tool_icons == {"terminal": "⚔"}
    assert skin.banner == "ARES\n\n /\\ x"


def test_our_words_count_more_than_those_of_other_editions(load: Write) -> None:
    skin = load(
        'colors:\n  ui_ok: "#111111"\n  success: "#222222"\n'
        "branding:\n  welcome: theirs\nwelcome: ours\ntool_emojis: {a: b}\ntool_icons: {a: c}\n"
    ).skin
    assert skin.colors["success"] == "#222222"
    assert skin.welcome == "ours"
    assert skin.tool_icons == {"a": "c"}


def test_markup_that_never_ends_is_read_in_no_time(load: Write) -> None:
    art = "[a " + "a" * 5000 + "\n  " + "[" * 5000
    loaded = load(f"banner_logo: |2\n  [bold red]x[/bold red] [a]\n  {art}")
    assert loaded.skin.banner == ""
    assert "is larger than" in loaded.problems[0].message
    assert load("banner_logo: '[bold red]x[/bold red][/][ok] [1] [['").skin.banner == "x [1] [["


def test_icons_of_patched_fonts_and_newer_emoji_stay(load: Write) -> None:
    assert load('prompt_symbol: "\uf0e7"\nwelcome: "\U0001fae8"').skin.prompt_symbol == "\uf0e7"
    assert load('welcome: "\U0001fae8\U0001facd"').problems == ()


def test_a_symbol_that_cannot_be_seen_is_refused(load: Write) -> None:
    assert load('prompt_symbol: "\u0301"').skin.prompt_symbol == Skin().prompt_symbol


def test_the_example_of_the_manual_is_a_skin_without_problems(load: Write) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "skins.md").read_text("utf-8")
    example = re.search(r"```yaml\n(.*?)```", manual, re.DOTALL)
    assert example is not None
    loaded = load(example[1])
    assert loaded.problems == ()
    assert loaded.skin.welcome == "It is dry in here."
    assert all(f"`{name}`" in manual for name in (*builtin_names(), *ROLES))


def test_a_name_nobody_knows_gives_the_default_and_the_nearest_name(tmp_path: Path) -> None:
    assert told(load_skin("embre", tmp_path)) == ["skin: there is no skin `embre`; did you mean `ember`?"]
    assert load_skin("embre", tmp_path).skin == Skin()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", ".", "a/b", "night.yaml", "\x00", "a\nb"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.yaml").write_text("welcome: stolen")
    folder = tmp_path / "skins"
    folder.mkdir()
    loaded = load_skin(name, folder)
    assert loaded.skin == Skin()
    assert len(loaded.problems) == 1
    assert "\x00" not in str(loaded.problems[0]) and "\n" not in str(loaded.problems[0])


def test_an_own_skin_hides_the_built_in_one_of_its_name(load: Write, tmp_path: Path) -> None:
    assert load("welcome: Mine", name="night").skin.welcome == "Mine"
    listed = {each.name: each for each in list_skins(tmp_path)}
    assert listed["night"].own and listed["night"].path == tmp_path / "night.yaml"
    assert load_skin("night").skin == Skin()


def test_listing_survives_missing_folders_and_strange_files(tmp_path: Path) -> None:
    assert [each.name for each in list_skins(tmp_path / "none")] == list(builtin_names())
    for name in ("b.yml", "b.yaml", "notes.txt", ".hidden.yaml", "with space.yaml", "c.YAML"):
        (tmp_path / name).write_text("")
    own = [each for each in list_skins(tmp_path) if each.own]
    assert [each.path.name for each in own] == ["b.yaml"]


def test_files_that_cannot_be_read_are_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    reasons = {name: told(load_skin(name, tmp_path))[0] for name in ("pipe", "folder", "loop", "large")}
    assert reasons["pipe"].startswith("pipe.yaml: cannot be read: it is not a regular file")
    assert reasons["folder"].startswith("folder.yaml: cannot be read: it is not a regular file")
    assert reasons["loop"].startswith("loop.yaml: cannot be read: too many levels of symbolic links")
    assert reasons["large"].startswith("large.yaml: cannot be read: it is larger than 256 KB")


def test_a_link_to_a_skin_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("welcome: Linked")
    (tmp_path / "mine.yaml").symlink_to(tmp_path / "dotfiles")
    assert load_skin("mine", tmp_path).skin.welcome == "Linked"


@pytest.mark.parametrize("name", builtin_names())
def test_a_new_skin_looks_like_the_one_it_starts_from(name: str, tmp_path: Path) -> None:
    base = load_skin(name).skin
    path = tmp_path / "copy.yaml"
    path.write_text(new_skin("copy", base), "utf-8")
    loaded = load_file(path)
    assert loaded.problems == ()
    for part in ("description", "dark", "colors", "prompt_symbol", "spinner", "verbs", "faces", "banner"):
        assert getattr(loaded.skin, part) == getattr(base, part), part
    assert (loaded.skin.welcome, loaded.skin.goodbye) == (base.welcome, base.goodbye)


def test_a_new_skin_keeps_art_icons_and_awkward_texts(tmp_path: Path) -> None:
    base = Skin(
        banner="  /\\\n /  \\\n\n# no comment",
        tool_icons={"read_file": "#", "terminal": '"'},
        faces=("(o_o)", "- x"),
        welcome='say "hi": # {x}',
        goodbye="",
        spinner=("漢", "字"),
        verbs=("null", "true", "1.5"),
    )
    path = tmp_path / "copy.yaml"
    path.write_text(new_skin("copy", base), "utf-8")
    loaded = load_file(path)
    assert loaded.problems == ()
    assert (loaded.skin.banner, loaded.skin.tool_icons, loaded.skin.faces) == (
        base.banner,
        base.tool_icons,
        base.faces,
    )
    assert (loaded.skin.welcome, loaded.skin.goodbye) == (base.welcome, "")
    assert (loaded.skin.spinner, loaded.skin.verbs) == (base.spinner, base.verbs)


@pytest.mark.parametrize("name", ["", "a b", "../x", "é", "x" * 65, "-x", "a.b"])
def test_a_new_skin_needs_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name for a skin"):
        new_skin(name, Skin())


YAML_LIKE = st.text(alphabet="abc: -[]{}#&*!|>'\"\n\t\\\x00\x1b\u202e%@`,?1", max_size=120)


@given(content=st.one_of(st.binary(max_size=200), YAML_LIKE.map(str.encode)))
def test_no_content_can_break_loading(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(content)
    loaded = load_file(path)
    assert set(loaded.skin.colors) == set(ROLES)
    assert all(harmless(str(problem)) for problem in loaded.problems)


NODES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=30)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("name", "base", "dark", "colors", "spinner", "faces", "verbs", "branding", "tool_icons"),
        *("tool_emojis", "banner", "banner_logo", "banner_hero", "welcome", "prompt_symbol", "other"),
    ]
)


@pytest.mark.thorough
@given(data=st.dictionaries(KEYS, NODES, max_size=6))
def test_any_value_anywhere_leaves_a_usable_skin(
    data: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    import yaml

    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=False), "utf-8")
    skin = load_file(path).skin
    assert all(normalize_color(color) == color for color in skin.colors.values())
    assert skin.spinner and skin.verbs and skin.prompt_symbol
    texts = (skin.welcome, skin.goodbye, skin.agent_name, skin.prompt_symbol, *skin.spinner, *skin.verbs)
    assert all(map(harmless, texts))
    assert all(map(harmless, skin.banner.split("\n")))
