"""Records the server's answers in three wire formats, each with the request that made it and what it says.

python record.py http://127.0.0.1:PORT FOLDER

What an answer says is read here, by a reader that shares nothing with the project's decoders: `json`, and lines.
"""

import http.client
import json
import pathlib
import sys

QUESTION = "What is the weather in Rome?"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
}
ABOUT = "The weather in a city"
# A model of this size does not choose tools: one is required, and its answer is begun for it.
BEGUN = "<tool_call>\n"
END = "</tool_call>"

CHAT = {"model": "smollm2", "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
CHAT_TOOL = CHAT | {
    "tools": [{"type": "function", "function": {"name": "weather", "description": ABOUT, "parameters": SCHEMA}}],
    "tool_choice": "required",
    "messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": BEGUN}],
}
RESPONSES = {"model": "smollm2", "temperature": 0, "stream": True}
RESPONSES_TOOL = RESPONSES | {
    "tools": [{"type": "function", "name": "weather", "description": ABOUT, "parameters": SCHEMA}],
    "tool_choice": "required",
    "input": [
        {"role": "user", "content": QUESTION},
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": BEGUN, "annotations": []}],
        },
    ],
}
MESSAGES = {"model": "smollm2", "temperature": 0, "stream": True}
MESSAGES_TOOL = MESSAGES | {
    "tools": [{"name": "weather", "description": ABOUT, "input_schema": SCHEMA}],
    "tool_choice": {"type": "any"},
    "messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": BEGUN}],
}
HELLO = [{"role": "user", "content": "Say hello."}]



def requests():
    """Name, path, body. Without a stop text the model calls again and again: `calls`, and `cut-call` in mid-call."""
    for form, path, base, tool, plain, limit, stop in [
        ("chat", "/v1/chat/completions", CHAT, CHAT_TOOL, {"messages": HELLO}, "max_tokens", "stop"),
        ("responses", "/v1/responses", RESPONSES, RESPONSES_TOOL, {"input": "Say hello."}, "max_output_tokens", "stop"),
        ("messages", "/v1/messages", MESSAGES, MESSAGES_TOOL, {"messages": HELLO}, "max_tokens", "stop_sequences"),
    ]:
        yield f"{form}-plain", path, base | plain | {limit: 60}
        yield f"{form}-cut", path, base | plain | {limit: 8}
        yield f"{form}-tool", path, tool | {limit: 60, stop: [END]}
        yield f"{form}-calls", path, tool | {limit: 60}
        yield f"{form}-cut-call", path, tool | {limit: 42}
        # Nothing is asked in it.
        yield f"{form}-error", path, base


def frames(body):
    """The events of a body that is known to be simple: one data line each, blank lines between."""
    for block in body.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        if fields["data"] != "[DONE]":
            yield fields.get("event", ""), json.loads(fields["data"])


def read_chat(body):
    said = {"text": "", "calls": [], "finish": None, "usage": None, "model": None, "id": None}
    for _, chunk in frames(body):
        said["model"], said["id"] = chunk["model"], chunk["id"]
        if chunk.get("usage"):
            counted = chunk["usage"]
            said["usage"] = {
                "input": counted["prompt_tokens"],
                "output": counted["completion_tokens"],
                "cached": counted["prompt_tokens_details"]["cached_tokens"],
            }
        for choice in chunk["choices"]:
            said["finish"] = choice["finish_reason"] or said["finish"]
            said["text"] += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or []:
                if "id" in piece:
                    said["calls"].append({"id": piece["id"], "name": piece["function"]["name"], "arguments": ""})
                said["calls"][piece["index"]]["arguments"] += piece["function"]["arguments"]
    return said


def read_responses(body):
    said = {"text": "", "calls": [], "finish": None, "usage": None, "model": None, "id": None}
    for name, data in frames(body):
        if name == "response.output_text.delta":
            said["text"] += data["delta"]
        elif name == "response.output_item.added" and data["item"]["type"] == "function_call":
            said["calls"].append({"id": data["item"]["call_id"], "name": data["item"]["name"], "arguments": ""})
        elif name == "response.function_call_arguments.delta":
            said["calls"][-1]["arguments"] += data["delta"]
        elif data["type"] in ("response.completed", "response.incomplete"):
            answer = data["response"]
            counted = answer["usage"]
            said["finish"], said["model"], said["id"] = answer["status"], answer["model"], answer["id"]
            said["usage"] = {
                "input": counted["input_tokens"],
                "output": counted["output_tokens"],
                "cached": counted["input_tokens_details"]["cached_tokens"],
            }
    return said


def read_messages(body):
    said = {"text": "", "calls": [], "finish": None, "usage": None, "model": None, "id": None}
    for name, data in frames(body):
        if name == "message_start":
            message = data["message"]
            counted = message["usage"]
            said["model"], said["id"] = message["model"], message["id"]
            # This format counts cached tokens beside the others.
            cached = counted["cache_read_input_tokens"]
            said["usage"] = {"input": counted["input_tokens"] + cached, "output": 0, "cached": cached}
        elif name == "content_block_start" and data["content_block"]["type"] == "tool_use":
            block = data["content_block"]
            said["calls"].append({"id": block["id"], "name": block["name"], "arguments": ""})
        elif name == "content_block_delta":
            said["text"] += data["delta"].get("text", "")
            if "partial_json" in data["delta"]:
                said["calls"][-1]["arguments"] += data["delta"]["partial_json"]
        elif name == "message_delta":
            said["finish"] = data["delta"]["stop_reason"]
            said["usage"]["output"] = data["usage"]["output_tokens"]
    return said


READERS = {"chat": read_chat, "responses": read_responses, "messages": read_messages}

address, folder = sys.argv[1].removeprefix("http://"), pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
expected = {}
for name, path, request in requests():
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request("POST", path, json.dumps(request), {"content-type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    streamed = response.getheader("content-type", "").startswith("text/event-stream")
    if streamed == name.endswith("-error") or streamed != (response.status == 200):
        sys.exit(f"{name}: status {response.status}, {response.getheader('content-type')}: {body[:500]!r}")
    file = f"{name}.sse" if streamed else f"{name}.json"
    (folder / file).write_bytes(body)
    made_by = {"method": "POST", "path": path, "body": request}
    (folder / f"{name}.request.json").write_text(json.dumps(made_by, indent=1) + "\n")
    expected[name] = {"file": file, "format": name.split("-")[0], "status": response.status}
    if streamed:
        expected[name] |= READERS[name.split("-")[0]](body)
    print(f"{file}: {len(body)} bytes, status {response.status}")
(folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
