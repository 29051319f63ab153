"""A closed engine says so, and holds nothing."""

from collections.abc import Callable

import pytest

from context_engine import TRUSTED, Engine, StoreError

CALLS: dict[str, Callable[[Engine], object]] = {
    "search": lambda engine: engine.search("otter", principals=TRUSTED),
    "ingest": lambda engine: engine.ingest([]),
    "list": lambda engine: list(engine.list_documents(principals=TRUSTED)),
    "migrate": lambda engine: engine.migrate(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_engine_does_not_open_again(call: str, engine: Engine) -> None:
    engine.count(principals=TRUSTED)
    engine.close()
    engine.close()
    with pytest.raises(StoreError, match="closed"):
        CALLS[call](engine)
