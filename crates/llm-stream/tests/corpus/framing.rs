//! Recorded streams in every other spelling that server-sent events have: the items must be equal.

use turnwright_llm_stream::{
    StreamItem,
    wire::{
        WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder, messages::MessagesDecoder,
        responses::ResponsesDecoder,
    },
};

use crate::support::recorded;

fn decode(mut decoder: impl WireDecoder, body: &str) -> Vec<StreamItem> {
    let mut out = Vec::new();
    // Of a length at which nothing of the formats repeats.
    body.as_bytes().chunks(777).for_each(|piece| decoder.feed(piece, &mut out));
    decoder.end(&mut out);
    out
}

/// The body, which has lines that end in line feeds, in other spellings.
fn spellings(body: &str) -> Vec<(&'static str, String)> {
    let lines = |spell: &dyn Fn(&str) -> String| body.split('\n').map(spell).collect::<Vec<_>>().join("\n");
    let data = |spell: &dyn Fn(&str) -> String| {
        lines(&|line| if line.starts_with("data:") { spell(line) } else { line.to_owned() })
    };
    vec![
        ("carriage returns and line feeds", body.replace('\n', "\r\n")),
        ("carriage returns", body.replace('\n', "\r")),
        ("a byte order mark", format!("\u{feff}{body}")),
        ("blank lines first", format!("\n\n{body}")),
        ("a comment first", format!(": hello\n\n{body}")),
        ("no blank line last", body.trim_end().to_owned()),
        ("no space", data(&|line| line.replacen("data: ", "data:", 1))),
        ("comments", data(&|line| format!(": before\n{line}\n: after"))),
        ("other fields", data(&|line| format!("id: 7\nretry: 10\n{line}\nother: 1"))),
        ("two lines of data", data(&|line| line.replacen("data: {", "data: {\ndata: ", 1))),
        (
            "no names",
            lines(&|line| if line.starts_with("event:") { String::from(":") } else { line.to_owned() }),
        ),
        ("pings", body.replace("\n\n", "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n")),
    ]
}

fn check<D: WireDecoder>(wire_format: &str, new: impl Fn() -> D) {
    for stream in recorded(wire_format) {
        // One that is cut in a character has no other spelling.
        let Ok(body) = String::from_utf8(stream.body) else { continue };
        let body = body.replace("\r\n", "\n");
        if body.contains('\r') || !body.contains("\n\n") {
            continue;
        }
        let items = decode(new(), &body);
        for (what, spelled) in spellings(&body) {
            assert!(decode(new(), &spelled) == items, "{}: {what}", stream.name);
        }
    }
}

#[test]
fn fault_e3_e5_r1_23_recorded_streams_mean_the_same_however_they_are_framed() {
    check("openai-chat", || ChatDecoder::new("p"));
    check("openai-responses", || ResponsesDecoder::new("p"));
    check("anthropic", || MessagesDecoder::new("p"));
    check("gemini", || GeminiDecoder::new("p"));
}
