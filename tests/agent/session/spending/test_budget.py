"""A account never gives out more than its ceiling, nor that of any account it is in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError, Charge, Reservation


def charge(tokens: int, money: float | None = 0.0) -> Charge:
    return Charge(1, tokens, money)


def test_what_was_reserved_and_not_used_can_be_used_again() -> None:
    account = BudgetAccount("main", Budget(tokens=100))
    account.reserve(charge(90)).settle(charge(10))
    assert account.room() == 90
    account.reserve(charge(90)).settle(charge(90))
    with pytest.raises(BudgetReachedError, match="The budget of main is reached: 100 of 100 tokens are used"):
        account.reserve(charge(1))


def test_open_requests_count_at_their_most() -> None:
    account = BudgetAccount("main", Budget(tokens=100))
    first = account.reserve(charge(60))
    with pytest.raises(BudgetReachedError):
        account.reserve(charge(60))
    first.settle(charge(5))
    account.reserve(charge(60))


def test_a_request_nobody_knows_the_cost_of_counts_for_the_most_it_could() -> None:
    account = BudgetAccount("main", Budget(tokens=100))
    reservation = account.reserve(charge(60))
    reservation.settle(None)
    reservation.settle(charge(1))
    assert account.spent == charge(60)


def test_the_ceiling_of_whoever_sent_it_holds_for_a_child_too() -> None:
    parent = BudgetAccount("main", Budget(tokens=100))
    one, two = parent.child("one", Budget(tokens=80)), parent.child("two", Budget(tokens=80))
    one.reserve(charge(70)).settle(charge(70))
    assert (one.room(), two.room()) == (10, 30)
    with pytest.raises(BudgetReachedError) as caught:
        two.reserve(charge(40))
    assert (caught.value.owner, caught.value.measure) == ("main", "tokens")
    assert two.spent == Charge()


def test_requests_and_time_are_bounded_and_waiting_for_a_person_does_not_count() -> None:
    now = [0.0]
    account = BudgetAccount("child", Budget(turns=1, seconds=10), clock=lambda: now[0])
    account.reserve(charge(1)).settle(charge(1))
    with pytest.raises(BudgetReachedError, match="1 of 1 requests"):
        account.reserve(charge(1))
    other = BudgetAccount("child", Budget(seconds=10), clock=lambda: now[0])
    now[0] = 30.0
    other.exclude_time(25.0)
    other.reserve(charge(1))
    now[0] = 35.0
    with pytest.raises(BudgetReachedError, match="10 of 10 seconds"):
        other.reserve(charge(1))


def test_a_ceiling_of_money_stops_what_has_no_price() -> None:
    account = BudgetAccount("main", Budget(money=1.0))
    with pytest.raises(BudgetReachedError) as caught:
        account.reserve(charge(10, None))
    assert caught.value.measure == "money"
    BudgetAccount("main", Budget(tokens=100)).reserve(charge(10, None)).settle(charge(5, None))


def test_the_narrower_of_two_budgets_counts_in_every_measure() -> None:
    one, two = Budget(turns=5, tokens=100), Budget(tokens=50, money=1.0)
    assert one.within(two) == Budget(turns=5, tokens=50, money=1.0)


def test_the_share_is_that_of_the_fullest_measure() -> None:
    account = BudgetAccount("main", Budget(turns=4, tokens=100))
    assert BudgetAccount("main", Budget()).share() is None
    account.reserve(charge(80)).settle(charge(80))
    assert account.share() == 0.8


actions = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 400), st.integers(0, 100), st.booleans()), max_size=60
)


@pytest.mark.thorough
@given(actions, st.integers(0, 1_500), st.lists(st.integers(0, 700), min_size=5, max_size=5))
def test_no_ceiling_is_ever_exceeded_and_every_account_adds_up(
    done: list[tuple[int, int, int, bool]], ceiling: int, ceilings: list[int]
) -> None:
    root = BudgetAccount("main", Budget(tokens=ceiling))
    accounts = [root]
    for number, each in enumerate(ceilings):
        accounts.append(accounts[number // 2].child(f"{number}", Budget(tokens=each)))
    waiting: list[tuple[BudgetAccount, Reservation]] = []
    real: dict[str, int] = {account.owner: 0 for account in accounts}
    for which, most, percent, now in done:
        account = accounts[which]
        try:
            waiting.append((account, account.reserve(charge(most))))
        except BudgetReachedError:
            continue
        if now:
            owner, reservation = waiting.pop(0)
            used = reservation.most.tokens * percent // 100
            reservation.settle(charge(used))
            for above in owner.chain():
                real[above.owner] += used
        for each in accounts:
            held = sum(r.most.tokens for owner, r in waiting if each in owner.chain())
            assert each.spent.tokens == real[each.owner]
            assert each.budget.tokens is not None
            assert real[each.owner] + held <= each.budget.tokens
