"""What runs inside the interpreter: cells come in on its input, one JSON line each; what becomes of them goes out the same way.

What code prints goes to the other pipe, that of standard error, with both streams in their order. Limits are set before the
first cell and cannot be raised by it.
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
    kind = type(error).__name__
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
        trace = trace.tb_next
    try:
        lines = traceback.format_exception(type(error), error, trace)
        return sendable(cut("".join(lines).rstrip(), MOST_OF_AN_ERROR))
    except BaseException:
        return f"{kind}, and it cannot be shown"


class ToolError(Exception):
    """A tool that was called from a cell did not do what it was asked for."""


class Kernel:
    def __init__(self):
        self.requests = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
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
        self.injected = set()
        self.main = types.ModuleType("__main__")
        self.main.__dict__.update(tools=Tools(self), ToolError=ToolError)
        sys.modules["__main__"] = self.main

    def send(self, **message):
        line = memoryview((json.dumps(message) + "\n").encode("utf-8"))
        while line:
            line = line[os.write(self.replies, line):]

    def receive(self):
        line = self.requests.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def call(self, tool, arguments):
        text = json.dumps(arguments)
        if len(text) > MOST_OF_A_CALL:
            raise ToolError(f"the arguments have {len(text)} characters, {MOST_OF_A_CALL} are the most")
        with self.desk:
            if os.getpid() != self.owner or not self.is_running:
                raise ToolError("tools are called while a cell runs, and by its own process")
            self.send(call=tool, arguments=text)
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
        self.step(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
        if last is not None:
            return self.step(compile(last, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
        return None

    def step(self, code):
        if code.co_flags & inspect.CO_COROUTINE:
            return asyncio.run(types.FunctionType(code, self.main.__dict__)())
        return eval(code, self.main.__dict__)

    def inject(self, env):
        for name in self.injected - env.keys():
            os.environ.pop(name, None)
        os.environ.update(env)
        self.injected = set(env)

    def serve(self):
        while True:
            request = self.receive()
            self.inject(request["env"])
            self.is_running = True
            value = error = None
            try:
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
                self.send(value=value, error=error)


class Tools:
    """Calls the agent's tools: `tools.NAME(argument=…)`. They return text."""

    def __init__(self, kernel):
        self.__kernel = kernel

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda **arguments: self.__kernel.call(name, arguments)

    def __call__(self, name, **arguments):
        return self.__kernel.call(name, arguments)


limit(int(sys.argv[1]), int(sys.argv[2]))
del sys.argv[1:]
Kernel().serve()
