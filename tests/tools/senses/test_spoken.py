"""What is read aloud of an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tools.senses.spoken import SentenceStream, sentences, spoken

ANSWER = """\
# Done

I changed **two** files, see [the docs](https://example.org/x):

- `money.py` rounds *half even*
- [x] tests

```python
print("never read this")
```

| a | b |
|---|---|
| 1 | 2 |

It took 3.5 seconds. Look at https://example.org/y now! ✓
"""


def test_markup_code_tables_and_addresses_are_not_read() -> None:
    assert " ".join(spoken(ANSWER).split()) == (
        "Done I changed two files, see the docs: money.py rounds half even tests "
        "It took 3.5 seconds. Look at now!"
    )


def test_sentences_come_as_soon_as_they_are_whole_and_code_never() -> None:
    stream, said = SentenceStream(), []
    for character in ANSWER:
        said += stream.feed(character)
    assert "It took 3.5 seconds." in said
    said += stream.end()
    assert said == list(sentences(spoken(ANSWER)))


@given(st.text(alphabet="ab .!?\n`~*_[]()#|-<>\x1b", max_size=200), st.integers(1, 7))
def test_nothing_is_lost_or_read_twice_however_it_comes(text: str, size: int) -> None:
    stream = SentenceStream()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    said = [each for piece in pieces for each in stream.feed(piece)] + stream.end()
    assert all(len(each) <= 400 and "\x1b" not in each and "`" not in each for each in said)
    assert sum(len(each) for each in said) <= len(text)
