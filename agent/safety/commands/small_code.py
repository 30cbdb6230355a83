"""Short programs of Ruby, PHP and R given as text: whether they only compute, read plain files and print.

Read as tokens, never run. Every name must be listed or be a variable of the program; texts
that are put together are no names of files; everything else is not harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.safety.shell.marks import words

LONGEST = 2_048
"""Characters of a program that are read."""


@dataclass(frozen=True, slots=True)
class Language:
    """What may stand in a program of one language."""

    tokens: re.Pattern[str]
    """Groups: blank, text, number, variable, word, operator."""
    known: frozenset[str]
    """Words that compute and print."""
    reads: frozenset[str]
    """Words that read the file whose name is the text behind them."""
    declares: re.Pattern[str]
    """How a program names variables of its own; the first group that matches holds names."""
    calls_values: bool = False
    """Whether a bracket behind a value calls what its text names."""
    joins: str = ""
    """The operator that puts texts together where others have none."""


_TEXTS = r"(?P<text>'[^'\\]*'|\"(?:[^\"\\$#`]|\\[nt\"])*\")"
_NUMBER = r"|(?P<number>\d[\d_.]*(?:e[+-]?\d+)?L?\b)"

RUBY = Language(
    re.compile(
        r"(?P<blank>\s+)|"
        + _TEXTS
        + _NUMBER
        + r"|(?P<word>[A-Za-z_]\w*[?!]?)"
        + r"|(?P<operator>\.\.\.?|<=>|===?|=>|&\.|&&|\|\||[-+*/<>!]=|<<|=~|[-+*/%<>=!?:;,.|(){}\[\]])"
    ),
    words(
        "puts print p pp if unless else elsif end do then and or not nil true false each each_with_index "
        "map select reject reduce inject sum min max minmax sort sort_by uniq first last take drop size "
        "length count keys values key? include? join split strip chomp upcase downcase capitalize gsub "
        "sub tr reverse to_s to_i to_f to_a to_h to_sym inspect zip times upto downto step flatten "
        "compact group_by tally any? all? none? empty? nil? zero? even? odd? round floor ceil abs merge "
        "dig fetch lines chars bytes start_with? end_with? match? each_slice each_cons with_index "
        "filter_map partition sprintf format JSON parse generate pretty_generate Time now strftime Date "
        "today RUBY_VERSION RUBY_PLATFORM RUBY_ENGINE Float Integer String Math sqrt PI File YAML name "
        "require"
    ),
    words("read readlines exist? load_file safe_load_file"),
    re.compile(r"\b([a-z_]\w*)\s*=(?![=~>])|\|([a-z_][\w, ]*)\|"),
)
PHP = Language(
    re.compile(
        r"(?P<blank>\s+)|"
        + _TEXTS
        + _NUMBER
        + r"|(?P<variable>\$(?!GLOBALS\b)[A-Za-z]\w*)"
        + r"|(?P<word>[A-Za-z_]\w*)"
        + r"|(?P<operator>===?|!==?|<=>|<=|>=|=>|->|\?\?|&&|\|\||\+\+|--|\.=|\+=|-=|[-+*/%<>=!?:;,.(){}\[\]])"
    ),
    words(
        "echo print var_dump print_r printf sprintf json_encode json_decode phpversion count strlen "
        "strtoupper strtolower ucfirst ucwords implode explode array_keys array_values array_merge "
        "array_sum array_unique array_slice array_reverse array_column array_combine array_flip "
        "array_key_exists in_array range max min round floor ceil intdiv abs date time strtotime "
        "number_format sort rsort ksort asort foreach for if else elseif as true false null TRUE FALSE "
        "NULL PHP_VERSION PHP_EOL PHP_OS PHP_OS_FAMILY PHP_INT_MAX PHP_INT_SIZE PHP_MAJOR_VERSION "
        "PHP_MINOR_VERSION PHP_SAPI JSON_PRETTY_PRINT JSON_UNESCAPED_SLASHES JSON_UNESCAPED_UNICODE "
        "JSON_THROW_ON_ERROR str_repeat str_replace str_contains str_starts_with trim ltrim rtrim substr "
        "strpos ucfirst extension_loaded function_exists class_exists ini_get memory_get_usage "
        "php_sapi_name md5 sha1 base64_encode base64_decode bin2hex random_int uniqid microtime isset "
        "empty is_array is_string is_int gettype array str_pad wordwrap strrev sqrt pow"
    ),
    words("file_get_contents file file_exists is_file is_dir filesize filemtime"),
    re.compile(r"(?!)"),
    calls_values=True,
    joins=".",
)
R = Language(
    re.compile(
        r"(?P<blank>\s+)|"
        + _TEXTS
        + _NUMBER
        + r"|(?P<word>[A-Za-z.][\w.]*)"
        + r"|(?P<operator><-|<=|>=|==|!=|&&|\|\||%%|%in%|[-+*/^<>=!:;,$~&|(){}\[\]])"
    ),
    words(
        "print cat head tail summary str nrow ncol dim names colnames rownames mean median sd var sum min "
        "max length seq seq_len rep paste paste0 sprintf format round c list data.frame library "
        "suppressPackageStartupMessages packageVersion sessionInfo R.version.string R.version "
        "installed.packages Sys.time Sys.Date table unique sort order rev which is.na nchar toupper "
        "tolower substr gsub sub grepl strsplit unlist if else for in TRUE FALSE NULL NA stringsAsFactors "
        "header sep n digits na.rm getwd as.character as.numeric as.integer .libPaths range quantile "
        "cumsum diff sqrt exp log abs floor ceiling matrix"
    ),
    words("read.csv read.table read.delim readLines file.exists"),
    re.compile(
        r"\b([A-Za-z.][\w.]*)\s*<-|(?:^|[;{}\n])\s*([A-Za-z.][\w.]*)\s*=(?!=)|for\s*\(\s*(\w+)\s+in\b"
    ),
    calls_values=True,
)

_ENDS = (")", ",", ";", ".", "]", "}", "|", "")
"""What may follow the name of a file: nothing that adds to it."""


def files_read(code: str, language: Language) -> list[str] | None:
    """The files that a harmless program may read: all its texts that can be names. None if it may do more."""
    if len(code) > LONGEST or "`" in code:
        return None
    tokens = list(_tokens(code, language))
    own = {
        name.strip()
        for match in language.declares.finditer(code)
        for name in _named(match).split(",")
        if name
    }
    if not tokens or any(kind == "" for kind, _ in tokens) or own & (language.known | language.reads):
        return None
    if not all(_is_fine(tokens, place, language, own) for place in range(len(tokens))):
        return None
    return [text[1:-1] for kind, text in tokens if kind == "text" and 0 < len(text) < 256]


def _is_fine(tokens: list[tuple[str, str]], place: int, language: Language, own: set[str]) -> bool:
    kind, text = tokens[place]
    following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
    if kind == "word" and text in language.reads:
        return _reads_plain_file(tokens, place, language.joins)
    if kind == "word" and text in ("require", "library"):
        return _loads_known(tokens, place)
    if following == "(" and language.calls_values:
        calls = kind in ("text", "variable", "number") or text in (")", "]", "}") or text in own
        if calls:
            return False
    return kind != "word" or text in language.known | own or _is_member(tokens, place)


def _tokens(code: str, language: Language) -> Iterator[tuple[str, str]]:
    """The tokens with their kinds; an empty kind for what is none."""
    place = 0
    while place < len(code):
        match = language.tokens.match(code, place)
        if match is None:
            yield "", code[place]
            return
        if match.lastgroup != "blank":
            yield match.lastgroup or "", match[0]
        place = match.end()


def _named(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group), "")


def _reads_plain_file(tokens: list[tuple[str, str]], place: int, joins: str) -> bool:
    """Whether the one thing that is read is written out."""
    rest = tokens[place + 1 :]
    if rest[:1] == [("operator", "(")]:
        rest = rest[1:]
    if not rest or rest[0][0] != "text" or "://" in rest[0][1] or "|" in rest[0][1]:
        return False
    end = rest[1][1] if len(rest) > 1 else ""
    return end in _ENDS and (not joins or end != joins)


def _is_member(tokens: list[tuple[str, str]], place: int) -> bool:
    """Whether a word is the name of a field of data (`$x->name`, `df$name`) that is not called."""
    before = tokens[place - 1][1] if place else ""
    following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
    return before in ("->", "$") and following != "("


def _loads_known(tokens: list[tuple[str, str]], place: int) -> bool:
    """Whether `require 'json'` and `library(stats)` name what comes with the language."""
    rest = [text.strip("'\"") for _, text in tokens[place + 1 : place + 3] if text != "("]
    return bool(rest) and rest[0] in _LIBRARIES


_LIBRARIES = words("json yaml date time set pp csv stats utils methods")
REQUIRED = re.compile(r"-r(?:json|yaml|date|time|set|pp|csv)")
"""Options of Ruby that load what comes with it and changes nothing."""

_R_WORK = re.compile(
    r"(?:devtools::(?:test|test_active_file|check|document|load_all|build|lint|spell_check|run_examples|check_man)"
    r"|testthat::test_(?:file|dir|local|package)|rcmdcheck::rcmdcheck|lintr::lint(?:_package|_dir)?"
    r"|styler::style_(?:pkg|file|dir)|roxygen2::roxygeni[sz]e|pkgdown::(?:build_site|build_reference|check_pkgdown)"
    r"|covr::package_coverage|renv::(?:status|restore)|tinytest::(?:test_package|run_test_dir|test_all))"
    r"\((?P<given>[\w\s.,=\"'/-]*)\)\s*"
)


def works_on_package(code: str) -> list[str] | None:
    """The places that `devtools::test()` and its like are given; None for everything else."""
    places: list[str] = []
    for statement in code.split(";"):
        match = _R_WORK.fullmatch(statement.strip())
        if match is None:
            return None
        places += re.findall(r"[\"']([^\"']*)[\"']", match["given"])
    return places
