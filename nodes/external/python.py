"""What runs a function for a node of the kind python. It needs the standard library only."""
import json
import os
import sys
import time
import traceback
import types


class Error(Exception):
    """Fails a packet with more than a message."""

    def __init__(self, message, code=None, status=None, data=None):
        super().__init__(message)
        self.fields = {"message": str(message), "code": code, "status": status, "data": data}


def convert(v):
    """Returns what JSON has in place of a value that it does not have."""
    if hasattr(v, "isoformat"):
        return v.isoformat()
    if isinstance(v, (set, frozenset)):
        return list(v)
    if isinstance(v, (bytes, bytearray)):
        import base64

        return base64.b64encode(v).decode()
    if type(v).__name__ in ("Decimal", "UUID") or isinstance(v, os.PathLike):
        return str(v)
    raise TypeError(f"a {type(v).__name__} cannot be written as JSON")


def plain(v):
    return json.dumps(v, default=convert, allow_nan=False, separators=(",", ":")).encode()


try:
    import orjson

    loads = orjson.loads

    def finite(v):
        """Refuses the numbers that orjson writes as null."""
        if isinstance(v, float) and v - v != 0:
            raise ValueError(f"{v} cannot be written as JSON")
        if isinstance(v, dict):
            v = v.values()
        elif hasattr(v, "__dataclass_fields__"):
            v = vars(v).values()
        elif not isinstance(v, (list, tuple, set, frozenset)):
            return
        for elem in v:
            finite(elem)

    def dumps(v):
        try:
            text = orjson.dumps(v, default=convert, option=orjson.OPT_NON_STR_KEYS)
            if b"null" in text:
                finite(v)
            return text
        except TypeError:  # integers of more than 64 bits, for example
            return plain(v)

except ImportError:
    loads, dumps = json.loads, plain


def failure(e, file):
    """Describes an exception: its last line, and the last place in the code of the user."""
    if isinstance(e, Error):
        fields = {k: v for k, v in e.fields.items() if v is not None}
    else:
        fields = {"message": "".join(traceback.format_exception_only(type(e), e)).strip().split("\n")[-1], "code": "python"}
    line = 0
    if isinstance(e, SyntaxError) and e.filename == file:
        line = e.lineno or 0
    for frame in traceback.extract_tb(e.__traceback__):
        if frame.filename == file:
            line = frame.lineno
    if line:
        fields["line"] = line
    return dumps(fields)


def load(about):
    """Makes a module of the code of the user, and returns its function."""
    file, code = about["file"], about["code"]
    module = types.ModuleType("handler")
    module.__file__ = file
    sys.modules["handler"] = module
    sys.path[0] = about["folder"]
    exec(compile(code, file, "exec"), module.__dict__)
    function = getattr(module, about["function"], None)
    if not callable(function):
        raise Error(f"the code has no function {about['function']}", code="python")
    return function


def main():
    # What the code prints, and what programs write that it starts, does not get into the answers.
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    sdk = types.ModuleType("uniflow")
    sdk.Error = Error
    sys.modules["uniflow"] = sdk

    def write(data):
        while data:
            data = data[os.write(answers, data):]

    function, file, rest, out = None, "", [], []
    clock, last = time.monotonic, 0.0
    while True:
        chunk = os.read(requests, 1 << 18)
        if not chunk:
            return
        if b"\n" not in chunk:
            rest.append(chunk)
            continue
        rest.append(chunk)
        lines = b"".join(rest).split(b"\n")
        rest = [lines.pop()]
        last = clock()
        for line in lines:
            if function is None:
                about = json.loads(line)
                file = about["file"]
                try:
                    function = load(about)
                except BaseException as e:
                    write(b'{"ready":false,"error":%b}\n' % failure(e, file))
                    return
                write(b'{"ready":true}\n')
                continue
            request = loads(line)
            try:
                answer = b'{"id":%d,"payload":%b}\n' % (request["id"], dumps(function(request["payload"])))
            except BaseException as e:
                answer = b'{"id":%d,"error":%b}\n' % (request["id"], failure(e, file))
            out.append(answer)
            if clock() - last > 0.001:  # who waits for an answer does not wait for the others
                write(b"".join(out))
                out.clear()
                last = clock()
        write(b"".join(out))
        out.clear()


try:
    main()
except (BrokenPipeError, KeyboardInterrupt):
    pass
