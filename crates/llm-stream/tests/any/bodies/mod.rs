//! The bodies: each takes any bytes and checks what must hold. Tests and fuzzers share them.

mod decode;
mod dice;
mod encode;
mod errors;
mod events;
mod framers;
mod odd;
mod script;

/// A check of any input: it panics where the input breaks a promise.
pub(crate) type Body = fn(&[u8]);

/// Every body by its name, which is that of its fuzz target and of its folder of seeds.
pub(crate) const ALL: &[(&str, Body)] = &[
    ("sse", framers::sse),
    ("lines", framers::lines),
    ("array", framers::array),
    ("chat", decode::chat),
    ("responses", decode::responses),
    ("messages", decode::messages),
    ("gemini", decode::gemini),
    ("ollama", decode::ollama),
    ("converse", decode::converse),
    ("script", script::any_format),
    ("odd", odd::any_order),
    ("events", events::any_events),
    ("errors", errors::any_refusal),
];
