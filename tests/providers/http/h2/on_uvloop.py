"""A plug-in for pytest: the tests run on uvloop, as the worker does."""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
