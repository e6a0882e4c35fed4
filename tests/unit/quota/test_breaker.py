from __future__ import annotations

from headrace.quota import BreakerConfig, Phase
from headrace.quota.breaker import BreakerState, Pass
from headrace.quota.processes import Owner

S = 1_000_000_000
CONFIG = BreakerConfig(cooldown_s=10, cooldown_cap_s=35, probe_timeout_s=60)
ME = Owner.this()
DEAD = Owner(2**22 + 1, 1)  # no such process: above the kernel's highest number


def passed(state: BreakerState, now: int, who: Owner = ME) -> tuple[BreakerState, Pass]:
    state, answer = state.ask(now, who, CONFIG)
    assert isinstance(answer, Pass)
    return state, answer


def opened(now: int = 0) -> BreakerState:
    state = BreakerState()
    for _ in range(5):
        state, given = passed(state, now)
        state = state.failed(given, now, CONFIG)
    assert state.phase is Phase.OPEN
    return state


def test_opens_after_five_failures_in_a_row_only() -> None:
    state = BreakerState()
    for _ in range(3):
        for _ in range(4):
            state, given = passed(state, 0)
            state = state.failed(given, 0, CONFIG)
        state, given = passed(state, 0)
        state = state.succeeded(given, CONFIG)
    assert state.phase is Phase.CLOSED
    assert state.failures == 0


def test_failures_of_one_request_are_one_piece_of_evidence() -> None:
    state = BreakerState()
    for request in (1, 2, 1, 2, 2, 1, 3, 1, 4, 4, 3):
        state, given = passed(state, 0)
        state = state.failed(given, 0, CONFIG, request)
    assert (state.phase, state.failures) == (Phase.CLOSED, 4)
    assert state.succeeded(given, CONFIG) == BreakerState()
    assert state.failed(given, 0, CONFIG, 5).phase is Phase.OPEN
    assert state.failed(given, 0, CONFIG, None).phase is Phase.OPEN


def test_no_probe_goes_before_the_cooldown_is_over() -> None:
    state = opened()
    assert state.ask(10 * S - 1, ME, CONFIG) == (state, 10 * S)
    state, given = passed(state, 10 * S)
    assert state.phase is Phase.HALF_OPEN
    assert given.probe


def test_half_open_lets_exactly_one_go() -> None:
    state, _ = passed(opened(), 10 * S)
    for later in (0, 1, 59):
        _, answer = state.ask((10 + later) * S, ME, CONFIG)
        assert isinstance(answer, int)
        assert answer > (10 + later) * S


def test_three_good_probes_close_it() -> None:
    state = opened()
    for count in range(3):
        assert state.phase is (Phase.HALF_OPEN if count else Phase.OPEN)
        state, probe = passed(state, 11 * S)
        state = state.succeeded(probe, CONFIG)
    assert state.phase is Phase.CLOSED
    assert (state.failures, state.pauses, state.outage_began) == (0, 0, 0)


def test_a_failed_probe_opens_it_for_longer_up_to_the_cap() -> None:
    state, now = opened(), 0
    pauses = []
    for _ in range(4):
        pauses.append((state.reopens - now) // S)
        now = state.reopens
        state, probe = passed(state, now)
        state = state.failed(probe, now, CONFIG)
    assert pauses == [10, 20, 35, 35]


def test_an_outage_began_when_it_first_opened() -> None:
    state = opened(now=2 * S)
    state, probe = passed(state, 12 * S)
    assert state.failed(probe, 13 * S, CONFIG).outage_began == 2 * S


def test_pauses_grow_to_the_cap_however_long_the_outage() -> None:
    assert BreakerState(pauses=100_000).cooldown(CONFIG) == 35 * S


def test_stragglers_of_the_outage_neither_reopen_nor_prolong_nor_close() -> None:
    state = BreakerState()
    state, straggler = passed(state, 0)
    state = opened()
    assert state.failed(straggler, 5 * S, CONFIG) == state
    assert state.succeeded(straggler, CONFIG) == state
    for _ in range(3):
        state, probe = passed(state, 11 * S)
        assert state.failed(straggler, 11 * S, CONFIG) == state
        state = state.succeeded(probe, CONFIG)
    assert state.phase is Phase.CLOSED
    for _ in range(9):
        state = state.failed(straggler, 12 * S, CONFIG)
    assert state.phase is Phase.CLOSED
    assert state.failures == 0


def test_a_dead_probers_place_is_free_at_once() -> None:
    state, _ = passed(opened(), 10 * S, who=DEAD)
    state, probe = passed(state, 10 * S + 1)
    assert probe.probe == 2


def test_a_probe_that_never_answers_is_given_up() -> None:
    state, lost = passed(opened(), 10 * S)
    state, probe = passed(state, 70 * S)
    assert probe.probe == lost.probe + 1
    assert state.failed(lost, 71 * S, CONFIG) == state


def test_a_probe_called_off_is_free_for_the_next() -> None:
    state, probe = passed(opened(), 10 * S)
    state, again = passed(state.dropped(probe), 10 * S)
    assert again.probe == probe.probe + 1


def test_a_pass_is_void_once_the_phase_has_changed() -> None:
    state, given = passed(BreakerState(), 0)
    assert state.holds(given)
    assert not opened().holds(given)
    assert not opened().holds(Pass(opened().epoch))


def test_after_a_reboot_an_open_breaker_pauses_again_and_a_closed_one_does_not() -> None:
    state = opened(now=5000 * S).restarted(3 * S, CONFIG)
    assert (state.phase, state.reopens) == (Phase.OPEN, 13 * S)
    assert BreakerState().restarted(3 * S, CONFIG) == BreakerState()
