"""Recognises errors about a request that is larger than the window, and the window they name."""

from __future__ import annotations

import re

CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "out_of_context_error",
        "request_too_large",
        "string_above_max_length",
        "token_limit_exceeded",
        "tokens_limit_reached",
    }
)

_SHORTEST = 10_000
"""Characters below which `string_above_max_length` is about a name or an id, not about the conversation."""

_TEXT = re.compile(
    r"""
    max(?:imum)?\ (?:allowed\ )?(?:context|prompt|input|sequence|model|token)\ (?:length|size|limit)
    | (?:context|prompt)[\ _-]?(?:window|size|length)\b .* exceed
    | exceed\w*\ .{0,80}? (?:context(?!\ deadline)|token\ limit)
    | exceed\w*\ .{0,80}? max(?:imum)?\ (?:allowed\ )?(?:number\ of\ )?
      (?:(?:input|prompt|total|message)\ )?(?:tokens|length|prompt|sequence)
    | (?:input|prompt)\ tokens?\ exceed
    | context[_ ]?(?:length|window)[_ ]?exceeded
    | (?:context|token)\ (?:length|limit|window)\ (?:was\ |is\ |has\ been\ )?(?:exceeded|reached)
    | (?:prompt|input|inputs|request|conversation|messages?|context|text)
      (?:\ (?:content|context|prompt|tokens|length|token\ (?:length|count)))?(?:\ \([^()]{1,40}\))?
      \ (?:is\ |are\ |was\ )?(?:far\ |much\ )?too\ (?:long|large|big)
    | \btokens?\b.{0,60}?\ exceeds?\ (?:the|this|your)\ (?:[\w']+\ )?limit\b(?!.*\bper\b)
    | (?<!max\ )(?<!output\ )(?<!completion\ )\btokens?\b.{0,60}?\ (?:can|must|may|should)\ ?not\ exceed
    | \b(?:prompt|input)[_\ ]tokens\b.{0,40}?\ (?:must|should)\ be\ (?:less|fewer|at\ most|<)
    | (?:prompt|input|request|conversation|messages?)\ (?:is|are)\ (?:long|larg|bigg)er\ than
    | \b(?:only\ (?:has|have|supports?)|has\ only|limited\ to)\ .{0,30}?\bcontext\b
    | request\ (?:payload\ )?size\ exceeds
    | expected\ maxLength:\ \d{4,},\ actual
    | \bn_keep\b.{0,30}?>=\ n_ctx
    | context\ shift\ is\ disabled
    | 超长 | (?:输入|提示词?|上下文|请求内容|消息)\S{0,16}?(?:过长|超过|超出|超限)
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
    | (?:cannot|not)\ exceed\ (?P<k>\d[\d,_.]*)
    | (?:context\ window|tokens)\ limit\ \(?(?P<l>\d[\d,_.]*)
    | max_(?:seq_len|total_tokens|num_tokens)(?:\ \(|=|\ )(?P<m>\d+)
    | (?:supports\ up\ to|tokens\ allowed|cache\ size|input\ tokens:|tokens\ exceeded:)\ (?P<n>\d[\d,_.]*)
    | limit\ for\ this\ model\ is\ (?P<o>\d[\d,_.]*)
    | input\ tokens\ is\ (?P<p>\d[\d,_.]*)
    | (?:too\ long:|token)\ \d+\ >\ (?P<q>\d[\d,_.]*)
    | should\ be\ less\ than\ (?P<r>\d[\d,_.]*)
    """,
    re.IGNORECASE | re.VERBOSE,
)


_SUM = re.compile(r"\d+ \+ \d+ > (\d+)")
"""Input and output that together are more than the window."""


_CODES_BARE = frozenset(code.replace("_", "") for code in CODES)
_LONGEST_STRING = re.compile(r"maximum length (\d+)")


_OTHER_UNIT = re.compile(r"\bstring\b.{0,20}\btoo long\b|\bmaxLength\b")


def is_overflow_code(words: str, text: str) -> bool:
    """Whether the codes of a complaint say so; `text` is its sentence."""
    for word in words.split():
        bare = re.sub(r"[_.-]", "", word)
        if bare == "stringabovemaxlength":
            most = _LONGEST_STRING.search(text)
            return most is None or int(most[1]) >= _SHORTEST
        if any(code in bare for code in _CODES_BARE):
            return True
    return False


def is_overflow(text: str) -> bool:
    """Whether a sentence says that a request was too large for the model."""
    return _TEXT.search(text) is not None and _RATE.search(text) is None


def window_named(text: str) -> int | None:
    """The tokens of the window that a sentence about an overflow names; None if it names none.

    Numbers of characters, and of tokens in a time, are none.
    """
    if _OTHER_UNIT.search(text) or _RATE.search(text):
        return None
    for match in (*_SUM.finditer(text), *_WINDOW.finditer(text)):
        digits = re.sub(r"[,_.]", "", next(filter(None, match.groups())))
        if digits.isdigit() and 1_000 <= int(digits) <= 100_000_000:
            return int(digits)
    return None
