//! The rows of the decoders.

use super::{
    super::figures::Figures,
    Budget::{self, RatioAtLeast, RatioAtMost},
    Row,
};

const EVENTSOURCE: &str = "`eventsource-stream` + `serde_json`";
const LINES: &str = "lines + `serde_json`";
const BY_HAND: &str = "a parser by hand";
const SCAN: &str = "a scan for line ends";

fn megabytes(f: &Figures, id: &str) -> Result<f64, String> {
    // Bytes a nanosecond are gigabytes a second.
    Ok(f.bytes(id)? / f.get(id)? * 1e3)
}

fn faster(f: &Figures, ours: &str, other: &str) -> Result<f64, String> {
    Ok(f.get(other)? / f.get(ours)?)
}

/// Nanoseconds for a byte of an argument.
fn a_byte(f: &Figures, id: &str) -> Result<f64, String> {
    Ok(f.get(id)? / f.bytes(id)?)
}

/// A body beside what else reads it.
macro_rules! beside {
    ($what:literal, $id:literal, $other:ident, $to:expr, $budget:expr) => {
        Row {
            what: $what,
            figure: |f| megabytes(f, concat!("decode/", $id, "_ours")),
            unit: "MB/s",
            beside: Some((
                |f| {
                    faster(
                        f,
                        concat!("decode/", $id, "_ours"),
                        concat!("decode/", $id, "_", stringify!($other)),
                    )
                },
                $to,
            )),
            budget: $budget,
        }
    };
}

/// What an event of a body costs.
macro_rules! event {
    ($what:literal, $id:literal) => {
        Row {
            what: $what,
            figure: |f| {
                Ok(f.get(concat!("decode/", $id, "_ours"))? / f.get(concat!("decode/", $id, "_events"))?)
            },
            unit: "ns",
            beside: Some((
                |f| faster(f, concat!("decode/", $id, "_ours"), concat!("decode/", $id, "_by_hand")),
                BY_HAND,
            )),
            budget: Budget::None,
        }
    };
}

/// What a byte of a long argument costs.
macro_rules! long {
    ($what:literal, $id:literal) => {
        Row {
            what: $what,
            figure: |f| a_byte(f, concat!("decode/", $id, "_argument_1m")),
            unit: "ns",
            beside: Some((
                |f| {
                    let short = a_byte(f, concat!("decode/", $id, "_argument_1k"))?;
                    Ok(a_byte(f, concat!("decode/", $id, "_argument_1m"))? / short)
                },
                "a byte of one of 1 KB",
            )),
            budget: RatioAtMost(1.0),
        }
    };
}

pub(super) const ROWS: &[Row] = &[
    beside!("decoding text", "text", eventsource, EVENTSOURCE, RatioAtLeast(5.0)),
    beside!("decoding text", "text", by_hand, BY_HAND, Budget::None),
    beside!("decoding text", "text", scan, SCAN, Budget::None),
    beside!("decoding arguments", "arguments", eventsource, EVENTSOURCE, RatioAtLeast(5.0)),
    beside!("decoding arguments", "arguments", by_hand, BY_HAND, Budget::None),
    beside!("chat completions, recorded", "chat", eventsource, EVENTSOURCE, Budget::None),
    beside!("chat completions, recorded", "chat", scan, SCAN, Budget::None),
    event!("chat completions, recorded, an event", "chat"),
    beside!("Responses, recorded", "responses", eventsource, EVENTSOURCE, Budget::None),
    beside!("Responses, recorded", "responses", scan, SCAN, Budget::None),
    event!("Responses, recorded, an event", "responses"),
    beside!("Messages, recorded", "messages", eventsource, EVENTSOURCE, Budget::None),
    beside!("Messages, recorded", "messages", scan, SCAN, Budget::None),
    event!("Messages, recorded, an event", "messages"),
    beside!("Gemini, made", "gemini", eventsource, EVENTSOURCE, Budget::None),
    beside!("Gemini, made", "gemini", scan, SCAN, Budget::None),
    event!("Gemini, made, an event", "gemini"),
    beside!("Ollama, made", "ollama", eventsource, LINES, Budget::None),
    beside!("Ollama, made", "ollama", scan, SCAN, Budget::None),
    event!("Ollama, made, an event", "ollama"),
    long!("chat completions, argument of 1 MB in fragments of 8 bytes, a byte", "chat"),
    long!("Responses, argument of 1 MB in fragments of 8 bytes, a byte", "responses"),
    long!("Messages, argument of 1 MB in fragments of 8 bytes, a byte", "messages"),
];
