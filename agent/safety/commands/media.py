"""Pictures, sound, films and pages: converting files of the workspace into others there.

These programs read addresses and run others by the form of a file name (`msl:`, `|sh`,
`concat:`), so every operand has to be a plain path, and every option a known one's kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, words

CONVERTS = fine("converts files of the workspace")
LOOKS = fine("only looks")
_ODD = ask("reads or writes in a way that is not followed")
_EXIF_REACHES = re.compile(
    r"-(?:config|execute|if|p$|printformat|w|textout|tagout|o(?:ut)?$|srcfile|(?:delete|restore|overwrite)_original"
    r"|efile|stay_open|tagsfromfile|geotag|use|file|common_args|geosync|require|api|userparam)",
    re.IGNORECASE,
)
"""Options of exiftool that write files, take programs or settings, or read other files."""
_PLAIN = re.compile(r"[\w./ %+~-]+(?:\[\d+\])?")
_NOTHING = words("- /dev/null null NUL")

_FFMPEG_RUNS = re.compile(
    r"-(?:f|filter_script|filter_complex_script|safe|protocol_whitelist|init_hw_device|report"
    r"|dump_attachment.*|attach"
    r"|passlogfile|vstats_file|sdp_file|progress|enc_stats\w*|stats_\w+|/.*|fpre|vpre|apre|spre|pre"
    r"|key\w*|hls_\w+"
    r"|segment_list|method|headers|cookies|fflags|use_wallclock\w*|metadata_file)"
)
_FILTER = re.compile(
    r"(?!.*(?:movie|sendcmd|zmq|drawtext|subtitles|lut3d|\bass=|frei0r|ladspa|file)).*", re.DOTALL
)
_FFMPEG_BARE = words(
    "-y -n -nostdin -hide_banner -an -vn -sn -dn -shortest -stats -nostats -re -accurate_seek -copyts "
    "-autorotate "
    "-version -formats -codecs -encoders -decoders -filters -h -ignore_unknown -noautorotate"
)


def ffmpeg(call: Call) -> Opinion:
    """ffmpeg: `-i input` and outputs, all plain files; filters and formats that open others ask."""
    inputs: list[str] = []
    outputs: list[str] = []
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        following = arguments[0] if arguments else ""
        if argument == "-i":
            inputs.append(following)
            arguments[:1] = []
        elif argument == "-f" and following in ("null", "mp3", "wav", "mp4", "gif", "image2", "webm", "flac"):
            arguments[:1] = []
        elif argument in _FFMPEG_BARE:
            continue
        elif argument.startswith("-") and len(argument) > 1:
            filters = re.match(r"-(?:vf|af|filter|lavfi)", argument) is not None
            if _FFMPEG_RUNS.fullmatch(argument) or (filters and not _FILTER.fullmatch(following)):
                return _ODD
            arguments[:1] = []
        else:
            outputs.append(argument)
    return _converted(call, inputs, outputs)


def _converted(call: Call, inputs: Sequence[str], outputs: Sequence[str]) -> Opinion:
    """The opinion on reading and writing plain files."""
    named = [path for path in (*inputs, *outputs) if path not in _NOTHING]
    if any(not _PLAIN.fullmatch(path) or UNKNOWN in path for path in named) or call.unsure:
        return _ODD
    written = [path for path in outputs if path not in _NOTHING]
    return call.revealed(inputs) or call.changed(written) or CONVERTS


_MAGICK_RUNS = re.compile(
    r"-(?:write|process|delegate|script|set|define|profile|debug|log|list|cache|clip-?mask|read-?mask"
    r"|write-?mask"
    r"|texture|tile|mask|remap|map|print|format|font|path|stegano|watermark|display|window|encipher"
    r"|decipher|authenticate)"
)
_MAGICK_BARE = words(
    "-strip -trim -flip -flop -negate -normalize -auto-orient -auto-level -append -flatten -layers "
    "-transpose -verbose "
    "-quiet +repage +append -monochrome -equalize -enhance -despeckle +dither +profile -alpha ( ) "
    "-coalesce -transverse"
)


def magick(call: Call) -> Opinion:
    """convert and magick: pictures with plain names, options with plain values."""
    arguments = list(call.arguments)
    if arguments[:1] in (["-version"], ["--version"]):
        return LOOKS
    if call.name == "magick" and arguments[:1] == ["identify"]:
        plain = all(map(_PLAIN.fullmatch, [a for a in arguments[1:] if not a.startswith("-")]))
        return call.revealed(arguments[1:]) or LOOKS if plain and "-write" not in arguments else _ODD
    if call.name == "magick" and arguments[:1] == ["convert"]:
        arguments.pop(0)
    files: list[str] = []
    while arguments:
        argument = arguments.pop(0)
        if argument in _MAGICK_BARE:
            if argument in ("-alpha", "-layers"):
                arguments[:1] = []
        elif re.match(r"[-+][a-z]", argument):
            if _MAGICK_RUNS.fullmatch(f"-{argument[1:]}") or "@" in "".join(arguments[:1]):
                return _ODD
            arguments[:1] = []
        else:
            files.append(argument)
    if len(files) < 2 or any("." not in file.rpartition("/")[2] for file in files):
        return _ODD
    return _converted(call, files[:-1], files[-1:])


def renders(*outputs: str, last: bool = False, runs: str = "") -> Rule:
    """A program that reads its operands and writes where the options `outputs` say.

    `last` tells that its last operand is written, `runs` are options that ask.
    """
    odd = words(runs)

    def rule(call: Call) -> Opinion:
        if call.arguments in (("--version",), ("--help",), ("-v",), ("-V",), ("-h",)):
            return LOOKS
        if call.flag(*odd) or any("://" in argument for argument in call.arguments):
            return _ODD
        written: list[str] = []
        read: list[str] = []
        arguments = list(call.arguments)
        while arguments:
            argument = arguments.pop(0)
            name, equals, value = argument.partition("=")
            if name in outputs:
                written.append(value if equals else "".join(arguments[:1]))
                arguments[: 0 if equals else 1] = []
            elif not argument.startswith("-"):
                read.append(argument)
        if last and len(read) > 1:
            written.append(read.pop())
        return _converted(call, read, written)

    return rule


def changes_pictures(call: Call) -> Opinion:
    """optipng and its like make the files they are given smaller."""
    files = [
        argument for argument in call.arguments if not argument.startswith("-") and not argument.isdigit()
    ]
    return _converted(call, files, files) if files else _ODD


RULES: dict[str, Rule] = (
    dict.fromkeys(("convert", "magick"), magick)
    | dict.fromkeys(("optipng", "jpegoptim", "oxipng", "pngcrush", "gifsicle", "svgo"), changes_pictures)
    | {
        "ffmpeg": ffmpeg,
        "rsvg-convert": renders("-o", "--output", runs="--stylesheet -s"),
        "inkscape": renders(
            "-o",
            "--export-filename",
            "--export-png",
            "--export-pdf",
            runs="--shell --actions --verb --with-gui -x",
        ),
        "mmdc": renders("-o", "--output", runs="-p --puppeteerConfigFile"),
        "cwebp": renders("-o"),
        "dwebp": renders("-o"),
        "pdftotext": renders(last=True),
        "pdftoppm": renders(last=True),
        "qpdf": renders(last=True, runs="--replace-input --password-file --job-json-file"),
        "sips": renders("-o", "--out"),
        "asciidoctor": renders("-o", "-D", runs="-r --require -I -T -a"),
        "wkhtmltopdf": renders(last=True, runs="--enable-local-file-access --run-script --post --cookie"),
        "weasyprint": renders(last=True, runs="-s --stylesheet -a"),
        "typst": renders(runs="watch --input --package-path"),
        "exiftool": lambda call: (
            LOOKS
            if all(re.fullmatch(r"-[A-Za-z]\w*|[\w./ -]+", a) for a in call.arguments)
            and not any(map(_EXIF_REACHES.match, call.arguments))
            else _ODD
        ),
    }
)
