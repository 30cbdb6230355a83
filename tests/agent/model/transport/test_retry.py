"""When a failed request is tried again."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from agent.errors import RETRYABLE, ModelError, ModelErrorKind
from agent.model.transport.waits import PatientPolicy, RetryPolicy

POLICY = RetryPolicy(retries=8)


def delays(error: ModelError, attempt: int, policy: RetryPolicy = POLICY) -> list[float]:
    found = [policy.delay(attempt, error, Random(seed)) for seed in range(200)]
    return [delay for delay in found if delay is not None]


@pytest.mark.parametrize("kind", get_args(ModelErrorKind))
def test_only_failures_that_may_pass_are_tried_again(kind):
    assert bool(delays(ModelError(kind, "x"), 1)) == (kind in RETRYABLE)


def test_delays_double_up_to_the_cap_and_are_spread():
    error = ModelError("overloaded", "x")
    for attempt, ceiling in [(1, 0.5), (2, 1), (3, 2), (7, 30), (8, 30)]:
        found = delays(error, attempt)
        assert ceiling / 2 <= min(found) < ceiling * 0.6
        assert ceiling * 0.9 < max(found) <= ceiling


def test_a_limit_that_lasts_for_hours_is_not_waited_for():
    error = ModelError("rate_limit", "x", retry_after=11_180)
    for policy in (RetryPolicy(retries=4), PatientPolicy(retries=4)):
        assert policy.delay(1, error, Random(1)) is None


def test_a_huge_attempt_number_does_no_harm():
    assert max(delays(ModelError("cut", "x"), 5000, RetryPolicy(retries=10_000))) <= 30


def test_after_the_last_retry_it_is_over():
    error = ModelError("cut", "x")
    assert RetryPolicy(retries=2).delay(2, error, Random(1)) is not None
    assert RetryPolicy(retries=2).delay(3, error, Random(1)) is None
    assert RetryPolicy(retries=0).delay(1, error, Random(1)) is None


def test_the_wish_of_the_provider_is_a_lower_limit_with_a_cap():
    assert delays(ModelError("rate_limit", "x", retry_after=7), 1) == [7] * 200
    assert max(delays(ModelError("rate_limit", "x", retry_after=600), 1)) == 120
    assert max(delays(ModelError("overloaded", "x", retry_after=86_400), 1)) == 120
    assert min(delays(ModelError("rate_limit", "x", retry_after=0), 3)) >= 1
