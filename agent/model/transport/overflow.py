"""Recognises errors about a request that is larger than the window, and the window they name."""

from __future__ import annotations

import re

CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "contextwindowexceedederror",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
        "string_above_max_length",
        "token_limit_exceeded",
        "tokens_limit_reached",
    }
)

_TEXT = re.compile(
    r"""
    maximum\ (?:allowed\ )?(?:context|prompt|input|sequence|model|token)\ (?:length|size|limit)
    | (?:context|prompt)[\ _-]?(?:window|size|length)\b .* exceed
    | exceed\w*\ .{0,80}? (?:context|token\ limit)
    | exceed\w*\ .{0,80}? max(?:imum)?\ (?:allowed\ )?(?:number\ of\ )?
      (?:(?:input|prompt|total)\ )?(?:tokens|length|prompt|sequence)
    | context_(?:length|window)_exceeded
    | (?:context|token)\ (?:length|limit|window)\ (?:was\ |is\ |has\ been\ )?(?:exceeded|reached)
    | (?:prompt|input|inputs|request|conversation|messages?|context|text)
      (?:\ token\ (?:length|count))?\ (?:is\ |are\ |was\ )?(?:far\ |much\ )?too\ (?:long|large|big)
    | \btokens?\b.{0,60}?\ exceeds?\ the\ (?:\w+\ )?limit\b(?!.*\bper\b)
    | (?:>|(?:long|larg|great|bigg)er\ than)\ .{0,30}?\b(?:context|sequence)\ (?:length|window|size)
    | more\ than\ (?:the\ )?max(?:imum)?\ tokens
    | (?:range\ of\ input\ length|input\ length\ range)
    | too\ large\ for\ model\ with
    | (?:reduce|shorten|trim)\ (?:the|your)\ (?:(?:length|size)\ of\ (?:the|your)\ )?
      (?:messages?|prompt|input|context|conversation)
    | too\ many\ (?:input\ |prompt\ )?tokens\b(?!\ per)
    | tokens\ \+\ `?max_new_tokens
    | request\ exceeds\ the\ maximum\ size
    | (?:request|prompt)\ body\ too\ large
    | inputs?`?\ must\ have\ less\ than\ \d+\ tokens
    | tokens\ when\ context\ the\ overflows
    | (?:context|kv)\ (?:window\ |cache\ |length\ )?(?:is\ )?(?:full|overflow)
    | (?:context|n_ctx)\ (?:size\ )?.{0,40}?\btoo\ small
    | (?:does|do|will|would|can)\ ?n[o'’]t\ fit\ .{0,40}?(?:context|window)
    | max_(?:prompt_|input_|seq_|model_)len(?:gth)?\b.{0,60}?(?:exceed|greater|larger|longer|but)
    | (?:exceed\w*|greater|larger|longer)\b.{0,60}?\bmax_(?:prompt_|input_|seq_|model_)(?:len|tokens)
    """,
    re.IGNORECASE | re.VERBOSE,
)

_RATE = re.compile(
    r"\bper[ -](?:min|minute|day|hour|second)\b|\brate[ _-]?limit|\bthrottl|\bTP[MD]\b|please wait",
    re.IGNORECASE,
)
"""Words of those who limit the tokens of a time rather than of a request."""

_WINDOW = re.compile(
    r"""
    (?:maximum|max|available|configured)\ (?:allowed\ )?(?:context|prompt|input|sequence|model)?\ ?
      (?:length|size|window|limit)?\ ?(?:is|of|:|\()?\ ?(?P<a>\d[\d,_.]*)\b
    | (?:context|token)\ (?:length|window|size|limit)\ ?(?:is|of|:|=|\(|exceeded:)?\ ?(?P<b>\d[\d,_.]*)\b
    | (?:limit|maximum)\ (?:is|of|:)\ ?(?P<c>\d[\d,_.]*)\b
    | >\ (?P<d>\d[\d,_.]*)\ (?:maximum|tokens?)
    | n_ctx\W{1,4}(?P<e>\d+)
    | (?P<f>\d[\d,_.]*)\ (?:maximum|max)\ context
    | tokens\ allowed\ \((?P<g>\d[\d,_.]*)\)
    | \[\d+,\ ?(?P<h>\d+)\]
    | must\ be\ (?:<=|at\ most|less\ than)\ (?P<i>\d[\d,_.]*)
    | context\ length\ of\ (?:only\ )?(?P<j>\d[\d,_.]*)
    """,
    re.IGNORECASE | re.VERBOSE,
)


_SUM = re.compile(r"\d+ \+ \d+ > (\d+)")
"""Input and output that together are more than the window."""


def is_overflow(text: str) -> bool:
    """Whether a sentence says that a request was too large for the model."""
    return _TEXT.search(text) is not None and _RATE.search(text) is None


def window_named(text: str) -> int | None:
    """The tokens of the window that a sentence about an overflow names; None if it names none."""
    for match in (*_SUM.finditer(text), *_WINDOW.finditer(text)):
        digits = re.sub(r"[,_.]", "", next(filter(None, match.groups())))
        if digits.isdigit() and 1_000 <= int(digits) <= 100_000_000:
            return int(digits)
    return None
