//! Decoding a streamed answer, beside what else reads one: `eventsource-stream` with `serde_json`, a parser by hand on
//! borrowed structs, and a scan for line ends that decodes nothing.

use std::{borrow::Cow, hint::black_box};

use bytes::Bytes;
use criterion::Throughput;
use eventsource_stream::Eventsource;
use futures::{FutureExt, StreamExt, stream};
use serde::Deserialize;
use turnwright_llm_stream::wire::{WireDecoder, chat::ChatDecoder};

use crate::cpu::Bench;

/// As much as a socket gives at once.
const PIECE: usize = 16 << 10;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
}
#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<Call<'a>>,
}
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}
#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

pub(crate) fn all(c: &mut Bench) {
    let mut group = c.benchmark_group("decode");
    for (name, body) in [("text", text_body()), ("arguments", arguments_body())] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("{name}_scan"), |b| {
            b.iter(|| memchr::memchr_iter(b'\n', black_box(body.as_bytes())).count());
        });
        group.bench_function(format!("{name}_by_hand"), |b| b.iter(|| by_hand(black_box(body.as_bytes()))));
        group.bench_function(format!("{name}_eventsource"), |b| {
            b.iter(|| eventsource(black_box(body.as_bytes())));
        });
        group.bench_function(format!("{name}_ours"), |b| b.iter(|| ours(black_box(body.as_bytes()))));
    }
    group.finish();
}

/// Answers how many items there were.
fn ours(body: &[u8]) -> usize {
    let (mut decoder, mut items, mut count) = (ChatDecoder::new("bench"), Vec::new(), 0);
    for piece in body.chunks(PIECE) {
        decoder.feed(piece, &mut items);
        count += items.drain(..).map(black_box).count();
    }
    decoder.end(&mut items);
    count + items.len()
}

/// The text as owned pieces, as an answer is handed on.
fn by_hand(body: &[u8]) -> usize {
    let (mut buffer, mut count) = (Vec::new(), 0);
    for piece in body.chunks(PIECE) {
        buffer.extend_from_slice(piece);
        let mut from = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[from..]) {
            let line = &buffer[from..from + end];
            from += end + 1;
            match line.strip_prefix(b"data: ") {
                None | Some(b"[DONE]") => {}
                Some(data) => count += take(serde_json::from_slice(data).unwrap()),
            }
        }
        buffer.drain(..from);
    }
    count
}

fn eventsource(body: &[u8]) -> usize {
    let pieces = body.chunks(PIECE).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
    let events = stream::iter(pieces.collect::<Vec<_>>()).eventsource();
    let counted = events.fold(0, |count, event| {
        let data = event.unwrap().data;
        let taken = if data == "[DONE]" { 0 } else { take(serde_json::from_str(&data).unwrap()) };
        std::future::ready(count + taken)
    });
    counted.now_or_never().unwrap()
}

fn take(chunk: Chunk<'_>) -> usize {
    let Some(choice) = chunk.choices.into_iter().next() else { return 0 };
    let text = choice.delta.content.map(Cow::into_owned);
    let fragments: Vec<String> =
        choice.delta.tool_calls.into_iter().map(|call| call.function.arguments.into_owned()).collect();
    black_box(text).is_some() as usize + black_box(fragments).len()
}

fn body(events: impl Iterator<Item = String>, reason: &str) -> String {
    let end = format!(r#"{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"{reason}"}}"#);
    events.chain([chunk(&end), "data: [DONE]\n\n".into()]).collect()
}

fn chunk(choice: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-BnZ2b0q9SmkQZ1nX3pT6yU8eR4wC7\",\"object\":\"chat.completion.chunk\",\
         \"created\":1751049600,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_62a23a81ef\",\"choices\":[{choice}],\"usage\":null}}\n\n"
    )
}

fn delta(delta: &str) -> String {
    chunk(&format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}"#))
}

/// An answer of words, some of which hold characters that JSON escapes.
fn text_body() -> String {
    let words =
        [" the", " quick", " brown", "\\n\\n", " fox", " \\\"jumps\\\"", " over", " 12", " dogs", "."];
    body(words.iter().cycle().take(2_000).map(|word| delta(&format!(r#"{{"content":"{word}"}}"#))), "stop")
}

/// One call whose arguments come in many fragments.
fn arguments_body() -> String {
    let call = |rest: &str| delta(&format!(r#"{{"tool_calls":[{{"index":0,{rest}}}]}}"#));
    let first = call(r#""id":"call_1","type":"function","function":{"name":"write","arguments":""}"#);
    let fragments =
        ["{\\\"text\\\":\\\""].into_iter().chain(std::iter::repeat_n(" words", 2_000)).chain(["\\\"}"]);
    let fragments = fragments.map(|f| call(&format!(r#""function":{{"arguments":"{f}"}}"#)));
    body([first].into_iter().chain(fragments), "tool_calls")
}
