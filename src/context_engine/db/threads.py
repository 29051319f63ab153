"""Call blocking functions from either kind of engine."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def async_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function without holding up the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function: there is no event loop to hold up."""
    return function(*args, **kwargs)
