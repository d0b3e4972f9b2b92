"""What deploy/inspect uses of anyio, by asyncio: the tests need no Python package."""

import asyncio
import sys
import types


def run(function, *args):
    return asyncio.run(function(*args))


to_thread = types.ModuleType("anyio.to_thread")
to_thread.run_sync = asyncio.to_thread
sys.modules["anyio.to_thread"] = to_thread
__path__ = []
