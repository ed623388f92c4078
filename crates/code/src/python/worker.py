"""What runs inside the interpreter: cells come in on its input, one JSON line each; what becomes of them goes out the same way.

What code prints goes to the other pipe, that of standard error, with both streams in their order. Limits are set before the
first cell; only the system's administrator can raise them.

Cells and calls have numbers, so that a reply is never taken for another one's, whatever a cell does: a signal may end the wait
for an answer, and a cell can write where replies are written.
"""

import ast
import asyncio
import inspect
import io
import json
import linecache
import os
import sys
import threading
import traceback
import types

MOST_OF_A_VALUE = 20_000
MOST_OF_AN_ERROR = 10_000
MOST_OF_A_CALL = 1_000_000
MOST_OF_A_NAME = 1_000
CELLS_REMEMBERED = 100


def limit(memory, file_size):
    try:
        import resource
    except ImportError:
        return
    wanted = (("RLIMIT_AS", memory), ("RLIMIT_FSIZE", file_size), ("RLIMIT_CORE", 0))
    for name, most in wanted:
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, ValueError, OSError):
            pass  # A system that does not have it.


def cut(text, most):
    return text if len(text) <= most else f"{text[:most]}[… {len(text) - most} characters left out …]"


def sendable(text):
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_plain(value, depth=0):
    """Whether it comes back from JSON as what it is."""
    if value is None or isinstance(value, bool):
        return True
    kind = type(value)
    if kind is int:
        return -(2**63) <= value < 2**63
    if kind is float:
        return value == value and abs(value) != float("inf")
    if kind is str:
        return sendable(value) == value
    if depth > 30:
        return False
    if kind is list:
        return all(is_plain(one, depth + 1) for one in value)
    if kind is dict:
        return all(type(key) is str and is_plain(key) and is_plain(one, depth + 1) for key, one in value.items())
    return False


def presentable(value):
    if is_plain(value):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= MOST_OF_A_VALUE:
            return value
        return cut(value if type(value) is str else text, MOST_OF_A_VALUE)
    return sendable(cut(repr(value), MOST_OF_A_VALUE))


def explained(error):
    """The traceback from the first line of a cell on."""
    kind = "an error"
    try:
        kind = type(error).__name__
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace)
        return sendable(cut("".join(lines).rstrip(), MOST_OF_AN_ERROR))
    except BaseException:
        return f"{kind}, and it cannot be shown"


def is_awaited(code):
    return bool(code.co_flags & inspect.CO_COROUTINE)


class ToolError(Exception):
    """A tool that was called from a cell did not do what it was asked for."""


class Kernel:
    def __init__(self):
        self.requests = os.dup(0)
        self.received = b""
        self.replies = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        for name in ("stdout", "stderr"):
            raw = io.FileIO(getattr(sys, name).fileno(), "w", closefd=False)
            wrapper = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
            setattr(sys, name, wrapper)
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        self.owner = os.getpid()
        self.desk = threading.Lock()
        self.is_running = False
        self.cells = 0
        self.calls = 0
        self.given = dict(os.environ)
        self.injected = set()
        self.main = types.ModuleType("__main__")
        self.main.__dict__.update(tools=Tools(self), ToolError=ToolError)
        sys.modules["__main__"] = self.main

    def send(self, **message):
        line = memoryview((json.dumps(message) + "\n").encode("utf-8"))
        while line:
            line = line[os.write(self.replies, line):]

    def receive(self):
        while b"\n" not in self.received:
            more = os.read(self.requests, 1 << 16)
            if not more:
                os._exit(0)
            self.received += more
        line, self.received = self.received.split(b"\n", 1)
        return json.loads(line)

    def call(self, tool, arguments):
        if type(tool) is not str or len(tool) > MOST_OF_A_NAME:
            raise ToolError("a tool is called by its name")
        text = json.dumps(arguments)
        if len(text) > MOST_OF_A_CALL:
            raise ToolError(f"the arguments have {len(text)} characters, {MOST_OF_A_CALL} are the most")
        with self.desk:
            if os.getpid() != self.owner or not self.is_running:
                raise ToolError("tools are called while a cell runs, and by its own process")
            self.calls += 1
            asked = self.calls
            self.send(call=asked, tool=sendable(tool), arguments=text)
            answer = self.receive()
            while answer.get("answer") != asked:  # One that a signal kept from being read.
                answer = self.receive()
        if answer["is_error"]:
            raise ToolError(answer["content"])
        return answer["content"]

    def run(self, code):
        self.cells += 1
        name = f"<cell {self.cells}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        linecache.cache.pop(f"<cell {self.cells - CELLS_REMEMBERED}>", None)
        tree = ast.parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        steps = [compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)]
        if last is not None:
            steps.append(compile(last, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
        if any(is_awaited(step) for step in steps):
            return asyncio.run(self.in_one_loop(steps))
        for step in steps:
            value = eval(step, self.main.__dict__)
        return value

    async def in_one_loop(self, steps):
        """What one step began is there for the next one to await."""
        for step in steps:
            value = types.FunctionType(step, self.main.__dict__)()
            if is_awaited(step):
                value = await value
        return value

    def inject(self, env):
        for name in self.injected - env.keys():
            os.environ.pop(name, None)
            if name in self.given:
                os.environ[name] = self.given[name]
        self.injected = set(env)
        os.environ.update(env)

    def serve(self):
        while True:
            request = self.receive()
            if "run" not in request:
                continue  # An answer that nobody waits for any more.
            self.is_running = True
            value = error = None
            try:
                self.inject(request["env"])
                value = presentable(self.run(request["code"]))
            except BaseException as raised:
                error = explained(raised)
            if os.getpid() != self.owner:
                os._exit(0)  # A fork of a cell: who asked waits for the original.
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except BaseException:
                    pass  # The cell closed it, or put something else there.
            with self.desk:
                self.is_running = False
                self.send(done=request["run"], value=value, error=error)


class Tools:
    """Calls the agent's tools: `tools.NAME(argument=…)`. They return text."""

    def __init__(self, kernel):
        self.__kernel = kernel

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda **arguments: self.__kernel.call(name, arguments)

    def __call__(self, name, /, **arguments):
        return self.__kernel.call(name, arguments)


limit(int(sys.argv[1]), int(sys.argv[2]))
del sys.argv[1:]
Kernel().serve()
