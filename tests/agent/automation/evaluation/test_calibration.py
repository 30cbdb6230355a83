"""A judge is measured with labelled pairs before its scores count, once for each model and set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agent.automation.evaluation.figures import (
    Calibration,
    CalibrationSet,
    JudgeAgreement,
    RunFigures,
    SuiteResult,
    bundled_pairs,
    calibrate,
    compare,
    pairs_in,
    read_result,
)
from agent.automation.evaluation.report import page
from tests.support.model_server import ModelServer
from tests.support.replies import say

PAIRS = CalibrationSet("some", bundled_pairs().pairs[:40])
_PART = re.compile(r"\[(Task|First answer|Second answer) \w+\]\n(.*?)\n\[end of ", re.DOTALL)


def environ(home: Path, server: ModelServer) -> dict[str, str]:
    return {
        "HERMES_HOME": str(home),
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
        "HOME": str(home),
    }


def answering(choose: Callable[[str, str, str], str]) -> Any:
    """A judge that chooses by prompt, first and second answer."""

    def script(request: Any) -> Any:
        assert "tools" not in request.body
        parts = dict(_PART.findall(request.messages[-1]["content"]))
        winner = choose(parts["Task"], parts["First answer"], parts["Second answer"])
        return say(json.dumps({"reason": "so", "winner": winner}) if winner else "I cannot tell.")

    return script


def perfect(prompt: str, first: str, second: str) -> str:
    pair = next(each for each in PAIRS.pairs if each.prompt == prompt)
    if pair.label == "tie":
        return "tie"
    return "first" if first == (pair.a if pair.label == "a" else pair.b) else "second"


def by_chance(prompt: str, first: str, second: str) -> str:
    better = min(first, second, key=lambda text: sha256(text.encode()).digest())
    return "first" if first == better else "second"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("choose", "kappa", "disagreed", "abstained", "doubt"),
    [
        (perfect, (1.0, 1.0), 0.0, 0.0, ""),
        (lambda *_: "first", (0.0, 0.0), 1.0, 0.0, "its kappa of 0.00 is below 0.6"),
        (by_chance, (-0.3, 0.3), 0.0, 0.0, "is below 0.6"),
        (lambda *_: "tie", (0.0, 0.0), 0.0, 0.0, "is below 0.6"),
        (lambda *_: "", (0.0, 0.0), 0.0, 1.0, "is below 0.6"),
        (lambda *_: "the better one", (0.0, 0.0), 0.0, 1.0, "is below 0.6"),
    ],
    ids=["perfect", "biased to the first", "random", "always a tie", "abstaining", "no such choice"],
)
async def test_a_judge_is_measured_in_both_orders_and_counts_from_a_kappa_of_0_6(
    tmp_path: Path,
    choose: Callable[[str, str, str], str],
    kappa: tuple[float, float],
    disagreed: float,
    abstained: float,
    doubt: str,
) -> None:
    async with ModelServer(answering(choose)) as server:
        found = await calibrate("", PAIRS, environ(tmp_path, server))
        assert server.refusals == []
    measured = found.agreement
    assert kappa[0] <= measured.kappa <= kappa[1]
    assert measured.interval[0] <= measured.kappa <= measured.interval[1]
    assert (measured.pairs, measured.disagreed, measured.abstained) == (40, disagreed, abstained)
    assert doubt in measured.doubt() and measured.counts is (doubt == "")


@pytest.mark.thorough
async def test_a_judge_is_asked_once_for_each_model_and_set(tmp_path: Path) -> None:
    fewer = replace(PAIRS, pairs=PAIRS.pairs[:20])
    told: list[tuple[str, int, int]] = []

    def note(model: str, done: int, pairs: int) -> None:
        told.append((model, done, pairs))

    async with ModelServer(answering(perfect)) as server:
        here = environ(tmp_path, server)
        first = await calibrate("", PAIRS, here, told=note)
        assert await calibrate("", PAIRS, here, told=note) == first and len(server.requests) == 80
        await calibrate("", fewer, here, told=note)
        assert len(server.requests) == 120
        await calibrate("custom/other", fewer, here, told=note)
        assert len(server.requests) == 160
        (kept, *_) = (tmp_path / "judges").glob("*.json")
        assert kept.stat().st_mode & 0o777 == 0o600
        for path in (tmp_path / "judges").glob("*.json"):
            path.write_text("{")
        await calibrate("", fewer, here, told=note)
        await calibrate("", fewer, here, again=True, told=note)
        assert len(server.requests) == 240
    assert told[:41] == [("custom/scripted", done, 40) for done in range(41)]
    assert [pairs for _, done, pairs in told if done == 0] == [40, 20, 20, 20, 20]


def test_the_pairs_that_ship_are_a_hundred_with_three_labels() -> None:
    pairs = bundled_pairs().pairs
    labels = [each.label for each in pairs]
    assert (labels.count("a"), labels.count("b"), labels.count("tie")) == (42, 42, 16)
    assert len({each.id for each in pairs}) == len({each.prompt for each in pairs}) == 100


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'\xff\xfe{"prompt"', "is not encoded in UTF-8"),
        (
            b'{"prompt": "p", "a": "x", "b": "y", "label": "a"}\n' * 30,
            "All pairs of p.jsonl have the label a",
        ),
        (None, "cannot be read: No such file"),
    ],
)
def test_pairs_that_measure_nothing_are_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "p.jsonl").write_bytes(content)
    with pytest.raises(Exception, match=said) as refused:
        pairs_in(tmp_path / "p.jsonl")
    assert getattr(refused.value, "exit_code", None) == 2


def calibration(kappa: float, pairs: int = 100) -> Calibration:
    agreement = JudgeAgreement(pairs, 0.8, kappa, (kappa - 0.1, kappa + 0.1), 0.12, 0.02)
    return Calibration("openai/judge", "bundled", "2026-11-24T09:00:00+00:00", agreement)


def judged(judge: Calibration | None, check: str = "judge: It is polite.") -> SuiteResult:
    told = ({"check": check, "passed": True, "detail": "8 of 10: yes"},)
    plain = ({"check": "contains: yes", "passed": True, "detail": ""},)
    runs = [
        RunFigures("polite", 1, True, 1.0, 0, 10, None, 1.0, "done", told),
        RunFigures("yes", 1, True, 1.0, 0, 10, None, 1.0, "done", plain),
    ]
    return SuiteResult("mine", 1, 0, "m", "1", tuple(runs), judge=judge)


@pytest.mark.parametrize(
    ("result", "shown", "grey"),
    [
        (judged(calibration(0.71)), ["0.71", "0.61 to 0.81", "80.0%", "12.0%", "2.0%", "100 labelled"], 0),
        (judged(calibration(0.59)), ["0.59", "its kappa of 0.59 is below 0.6", "1 of 2 tasks"], 1),
        (judged(calibration(1.0, 19)), ["19 labelled pairs are fewer than the 20"], 1),
        (judged(None), ["it was not calibrated"], 1),
        (judged(None, "not judge: It is rude."), ["it was not calibrated"], 1),
        (judged(None, "contains: judge: x"), ["No judge."], 0),
    ],
    ids=["counts", "below 0.6", "too few pairs", "not calibrated", "negated", "no judge"],
)
def test_a_report_tells_how_far_the_judge_counts_and_greys_what_rests_on_it(
    tmp_path: Path, result: SuiteResult, shown: list[str], grey: int
) -> None:
    text = page(result)
    assert [each for each in shown if each not in text] == []
    assert text.count("<td class=off>") == text.count('<td class="n off">') == grey
    assert text.count('<dd class="off">') == 2 * grey and text.count('<rect class="off"') == grey
    (tmp_path / "result.json").write_text(json.dumps(result.to_json()))
    assert read_result(tmp_path) == result
    assert bool(compare(result, result).doubt) is bool(grey)
