"""llama.cpp's own HTTP server with one model, on loopback, for as long as standard input is open.

python llm_server.py MODEL.gguf CHAT_TEMPLATE.jinja

It takes a free port and says which one. One thread: on a busy machine two are many times slower. Two slots, so that
two answers are made at once. Whoever starts it keeps standard input open; when that process is gone, however it ended,
so is the server.
"""

import os
import sys

import xllamacpp

model, template = sys.argv[1], sys.argv[2]

params = xllamacpp.CommonParams()
params.model.path = model
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 2
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.use_jinja = True
params.warmup = False
params.endpoint_slots = True
with open(template, encoding="utf-8") as file:
    params.chat_template = file.read()

server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while sys.stdin.buffer.read(4096):
    pass
# At once: the server's own way down waits for answers that are still being made.
os._exit(0)
