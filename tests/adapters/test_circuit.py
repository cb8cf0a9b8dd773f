from adapters.circuit import Circuit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_open_circuit_lets_one_request_through_at_a_time() -> None:
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(3):
        assert circuit.passes
        circuit.failed(circuit.sent())
    assert not circuit.passes
    clock.now += 11
    assert circuit.passes
    ticket = circuit.sent()
    assert not circuit.passes
    circuit.succeeded(ticket)
    assert circuit.passes


def test_a_passed_health_check_lets_requests_through_until_the_next_failure() -> None:
    circuit = Circuit(Clock())
    for _ in range(3):
        circuit.failed(circuit.sent())
    circuit.passed_check(circuit.last_failure)
    assert circuit.passes
    circuit.failed(circuit.sent())
    assert not circuit.passes


def test_a_health_check_that_began_before_the_last_failure_does_not_matter() -> None:
    circuit = Circuit(Clock())
    for _ in range(3):
        before = circuit.last_failure
        circuit.failed(circuit.sent())
    circuit.passed_check(before)
    assert not circuit.passes


def test_a_request_that_is_sent_again_fails_once() -> None:
    circuit = Circuit(Clock())
    ticket = circuit.sent()
    for _ in range(3):
        circuit.failed(ticket)
        circuit.sent()
    assert circuit.passes


def test_requests_that_were_out_at_the_same_time_count_as_one_failure() -> None:
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(2):
        sent = [circuit.sent() for _ in range(5)]
        clock.now += 1
        for ticket in sent:
            circuit.failed(ticket)
        assert circuit.passes
    circuit.failed(circuit.sent())
    assert not circuit.passes


def opened(clock: Clock) -> Circuit:
    circuit = Circuit(clock)
    for _ in range(3):
        circuit.failed(circuit.sent())
    assert not circuit.passes
    return circuit


def test_a_request_that_shows_nothing_leaves_the_turn_to_another() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now += 11
    ticket = circuit.sent()
    assert not circuit.passes
    circuit.undecided(ticket)
    assert circuit.passes


def test_an_older_request_that_shows_nothing_opens_no_turn() -> None:
    circuit = Circuit(Clock())
    older = circuit.sent()
    for _ in range(3):
        circuit.failed(circuit.sent())
    circuit.undecided(older)
    assert not circuit.passes


def test_a_request_that_was_out_at_the_last_failure_opens_no_turn() -> None:
    circuit = Circuit(Clock())
    for _ in range(2):
        circuit.failed(circuit.sent())
    failing, beside = circuit.sent(), circuit.sent()
    circuit.failed(failing)
    circuit.undecided(beside)
    assert not circuit.passes


def test_requests_are_held_back_from_the_failure_on_however_long_it_took() -> None:
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(3):
        ticket = circuit.sent()
        clock.now += 300
        circuit.failed(ticket)
    assert not circuit.passes


def test_a_request_beside_the_turn_does_not_end_it() -> None:
    clock = Clock()
    circuit = opened(clock)
    beside = circuit.sent()
    clock.now += 11
    circuit.sent()
    circuit.undecided(beside)
    assert not circuit.passes


def test_an_answer_that_began_before_the_failures_does_not_close_the_circuit() -> None:
    circuit = Circuit(Clock())
    older = circuit.sent()
    for _ in range(3):
        circuit.failed(circuit.sent())
    circuit.succeeded(older)
    assert not circuit.passes


def test_an_answer_that_was_out_at_the_last_failure_does_not_close_the_circuit() -> None:
    circuit = Circuit(Clock())
    for _ in range(2):
        circuit.failed(circuit.sent())
    failing, beside = circuit.sent(), circuit.sent()
    circuit.failed(failing)
    circuit.succeeded(beside)
    assert not circuit.passes


def test_after_an_answer_three_failures_open_the_circuit_again() -> None:
    circuit = Circuit(Clock())
    for _ in range(2):
        circuit.failed(circuit.sent())
    circuit.succeeded(circuit.sent())
    for _ in range(3):
        assert circuit.passes
        circuit.failed(circuit.sent())
    assert not circuit.passes
