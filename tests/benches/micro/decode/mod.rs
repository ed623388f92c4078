//! Decoding a streamed answer, beside what else reads one: `eventsource-stream` with `serde_json`, a parser by hand on
//! borrowed structs, and a scan for line ends that decodes nothing.

mod bodies;
mod formats;
mod hand;

use std::hint::black_box;

use bytes::Bytes;
use criterion::{SamplingMode, Throughput};
use eventsource_stream::Eventsource;
use futures::{FutureExt, StreamExt, stream};

use self::formats::{FORMATS, Format};
use crate::cpu::Bench;

/// As much as a socket gives at once.
const PIECE: usize = 16 << 10;

/// Lengths of an argument that comes in fragments of eight bytes.
const ARGUMENTS: [(&str, usize); 3] = [("1k", 1 << 10), ("64k", 64 << 10), ("1m", 1 << 20)];

pub(crate) fn all(c: &mut Bench) {
    let [chat, ..] = &FORMATS;
    beside(c, chat, "text", &bodies::text());
    beside(c, chat, "arguments", &bodies::arguments());
    for format in &FORMATS {
        let body = (format.body)();
        println!("figure decode/{}_events {}", format.name, format.events(&body));
        beside(c, format, format.name, &body);
    }
    for format in FORMATS.iter().filter(|format| format.fragments.is_some()) {
        fragments(c, format);
    }
}

/// The body, decoded by us and by others.
fn beside(c: &mut Bench, format: &Format, name: &str, body: &str) {
    let body = body.as_bytes();
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function(format!("{name}_scan"), |b| {
        b.iter(|| memchr::memchr_iter(b'\n', black_box(body)).count());
    });
    group.bench_function(format!("{name}_by_hand"), |b| b.iter(|| by_hand(format, black_box(body))));
    group.bench_function(format!("{name}_eventsource"), |b| b.iter(|| eventsource(format, black_box(body))));
    group.bench_function(format!("{name}_ours"), |b| b.iter(|| ours(format, black_box(body))));
    group.finish();
}

/// One call with an argument of each length: what a byte costs must not grow with it.
fn fragments(c: &mut Bench, format: &Format) {
    let Some(fragments) = format.fragments else { return };
    let mut group = c.benchmark_group("decode");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    for (name, length) in ARGUMENTS {
        let body = fragments(length);
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(format!("{}_argument_{name}", format.name), |b| {
            b.iter(|| ours(format, black_box(body.as_bytes())));
        });
    }
    group.finish();
}

/// Answers how many items there were.
fn ours(format: &Format, body: &[u8]) -> usize {
    let (mut decoder, mut items, mut count) = ((format.decoder)(), Vec::new(), 0);
    for piece in body.chunks(PIECE) {
        decoder.feed(piece, &mut items);
        count += items.drain(..).map(black_box).count();
    }
    decoder.end(&mut items);
    count + items.len()
}

/// The text as owned pieces, as an answer is handed on.
fn by_hand(format: &Format, body: &[u8]) -> usize {
    let (mut buffer, mut count) = (Vec::new(), 0);
    for piece in body.chunks(PIECE) {
        buffer.extend_from_slice(piece);
        let mut from = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[from..]) {
            let line = &buffer[from..from + end];
            from += end + 1;
            if let Some(json) = format.json_of(line) {
                count += (format.take)(json);
            }
        }
        buffer.drain(..from);
    }
    count
}

fn eventsource(format: &Format, body: &[u8]) -> usize {
    if !format.is_sse() {
        // What stands for it where lines are read: each line as a string of its own.
        let lines = body.split(|byte| *byte == b'\n').map(|line| String::from_utf8(line.to_vec()).unwrap());
        return lines.filter(|line| !line.is_empty()).map(|line| (format.take)(line.as_bytes())).sum();
    }
    let pieces = body.chunks(PIECE).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
    let events = stream::iter(pieces.collect::<Vec<_>>()).eventsource();
    let counted = events.fold(0, |count, event| {
        let data = event.unwrap().data;
        let taken = if data == "[DONE]" { 0 } else { (format.take)(data.as_bytes()) };
        std::future::ready(count + taken)
    });
    counted.now_or_never().unwrap()
}
