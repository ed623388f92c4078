//! How the bytes are cut and framed.

use turnwright_core::ErrorKind;
use turnwright_llm_stream::{FinishReason, LlmEvent, StreamItem, sse::MAX_EVENT_BYTES};

use crate::{
    format::{ALL, Format, SSE, Say},
    read::{assemble, decode, items, read},
};

const SAYS: [Say<'_>; 4] = [
    Say::Thought("hm 漢"),
    Say::Text("é😀\n"),
    Say::Call("c1", "f", "{\"a\":\"é😀\"}"),
    Say::Call("c2", "g", "{\"b\":[1,2]}"),
];

fn body(format: Format) -> String {
    format.body(&format.answer(&SAYS))
}

/// Each line with this end.
fn with_ends(body: &str, ends: &[&str]) -> String {
    body.lines().zip(ends.iter().cycle()).map(|(line, end)| format!("{line}{end}")).collect()
}

#[test]
fn fault_e1_e2_r1_21_r1_22_characters_and_events_may_be_cut_anywhere() {
    for format in ALL {
        let response = assemble(&items(format, &body(format)));
        assert_eq!(
            (response.text().as_str(), response.reasoning().as_str()),
            ("é😀\n", "hm 漢"),
            "{format:?}"
        );
        let calls: Vec<_> =
            response.tool_calls().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
        let expected = [("c1", "f", "{\"a\":\"é😀\"}"), ("c2", "g", "{\"b\":[1,2]}")];
        assert_eq!((calls.as_slice(), &response.error), (&expected[..], &None), "{format:?}");
        assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "{format:?}");
    }
}

#[test]
fn fault_e3_r1_25_every_line_end_means_the_same_and_none_is_waited_for() {
    for format in ALL {
        let expected = decode(format, [body(format).as_bytes()]);
        let ends: &[&[&str]] = match format {
            // A lone carriage return is white space there.
            Format::Ollama => &[&["\r\n"], &["\n", "\r\n"], &["\n\n", " \r\n"]],
            _ => &[&["\r\n"], &["\r"], &["\r\n", "\n", "\r"], &["\r", "\r\n"], &["\n", "\r\n"]],
        };
        for ends in ends {
            assert_eq!(items(format, &with_ends(&body(format), ends)), expected, "{format:?} {ends:?}");
        }
        for end in ["\n", "\r\n", "\r"] {
            if (format, end) == (Format::Ollama, "\r") {
                continue;
            }
            let (mut decoder, mut out) = (format.decoder(), Vec::new());
            let first = format.body(&format.unfinished(&[Say::Text("now")]));
            decoder.feed(with_ends(&first, &[end]).as_bytes(), &mut out);
            assert_eq!(out, [StreamItem::from(LlmEvent::text("now"))], "{format:?} {end:?}");
        }
    }
}

#[test]
fn fault_e5_e6_comments_say_nothing_and_are_no_progress() {
    for format in ALL {
        let comments: &[&str] = match format {
            Format::Ollama => &["\n", " \r\n"],
            _ => &[": OPENROUTER PROCESSING\n\n", ":\n\n", ":ping\r\n\r\n", "\n\n", ": {\"error\":1}\n"],
        };
        let expected = decode(format, [body(format).as_bytes()]);
        for comment in comments {
            let frames = format.answer(&SAYS);
            let between: String = frames.iter().map(|f| format!("{comment}{}", format.encode(f))).collect();
            assert_eq!(items(format, &between), expected, "{format:?} {comment:?}");
            // While it is silent, and after it finished.
            for at in [1, frames.len() - 1] {
                let (mut decoder, mut out) = (format.decoder(), Vec::new());
                decoder.feed(format.body(&frames[..at]).as_bytes(), &mut out);
                let (progress, count) = (decoder.progress(), out.len());
                for _ in 0..100 {
                    decoder.feed(comment.as_bytes(), &mut out);
                }
                assert_eq!((decoder.progress(), out.len()), (progress, count), "{format:?} {comment:?}");
                decoder.feed(format.encode(&frames[at]).as_bytes(), &mut out);
                assert!(decoder.progress() > progress, "{format:?} {comment:?}");
            }
        }
    }
}

#[test]
fn fault_r1_23_a_byte_order_mark_is_skipped_and_may_be_cut() {
    for format in ALL {
        let expected = decode(format, [body(format).as_bytes()]);
        assert_eq!(items(format, &format!("\u{feff}{}", body(format))), expected, "{format:?}");
        // Nothing but one, or part of one, is an answer that did not come.
        for cut in 0..=3 {
            let out = decode(format, [&"\u{feff}".as_bytes()[..cut]]);
            assert_eq!(assemble(&out).error.map(|e| e.kind), Some(ErrorKind::Truncated), "{format:?} {cut}");
        }
    }
}

#[test]
fn fault_r1_24_a_line_of_8_mb_in_small_chunks_is_linear() {
    let text = "x".repeat(8 << 20);
    let bodies = ALL.map(|format| (format, format.body(&format.answer(&[Say::Text(&text)]))));
    // One array in place of events, and an answer that is printed over many lines.
    let frames: Vec<_> =
        Format::Gemini.answer(&[Say::Text(&text)]).into_iter().map(|(_, data)| data.to_string()).collect();
    let array = (Format::Gemini, format!("[{}]", frames.join(",\r\n")));
    let lines = "\n".repeat(4 << 20);
    let printed = format!("{{\"message\":{lines}{{\"content\":\"{text}\"}},\"done\":true}}");
    for (format, body) in bodies.into_iter().chain([array, (Format::Ollama, printed)]) {
        #[expect(clippy::disallowed_methods, reason = "a test that measures")]
        let started = std::time::Instant::now();
        let out = decode(format, body.as_bytes().chunks(1024));
        // Quadratic work would be 32 GiB of looking. The margin is for slow debug builds.
        assert!(started.elapsed().as_secs() < 20, "{format:?} {:?}", started.elapsed());
        assert!(assemble(&out).text() == text, "{format:?}");
    }
}

#[test]
fn fault_r1_25_what_never_ends_is_refused_at_its_cap() {
    let megabyte = "x".repeat(1 << 20);
    for format in ALL {
        // A line without an end, a string in it without one, and an event of lines without one.
        let starts: &[(&str, &str)] = match format {
            Format::Ollama => &[("", &megabyte), ("{\"message\":{\"content\":\"", &megabyte)],
            // The framer is one: its corners once, and what is most of them for each.
            Format::Chat => &[
                ("data: ", &megabyte),
                ("data: {\"x\":\"", &megabyte),
                (": ", &megabyte),
                ("", &megabyte),
                ("{\"error\":\"", &megabyte),
            ],
            _ => &[("data: ", &megabyte)],
        };
        for (start, piece) in starts {
            let (mut decoder, mut out) = (format.decoder(), Vec::new());
            decoder.feed(start.as_bytes(), &mut out);
            let mut pieces = 0;
            while !decoder.is_done() && pieces <= 2 * (MAX_EVENT_BYTES >> 20) {
                decoder.feed(piece.as_bytes(), &mut out);
                pieces += 1;
            }
            assert!(pieces <= (MAX_EVENT_BYTES >> 20) + 1, "{format:?} {start:?}: {pieces}");
            let error = assemble(&out).error.unwrap();
            assert_eq!(
                (error.kind, error.is_retryable()),
                (ErrorKind::TooLarge, false),
                "{format:?} {start:?}"
            );
        }
    }
    let line = format!("data: {megabyte}\n");
    let (mut decoder, mut out, mut lines) = (Format::Chat.decoder(), Vec::new(), 0);
    while !decoder.is_done() && lines <= 2 * (MAX_EVENT_BYTES >> 20) {
        decoder.feed(line.as_bytes(), &mut out);
        lines += 1;
    }
    assert!(lines <= (MAX_EVENT_BYTES >> 20) + 1, "{lines}");
    assert_eq!(assemble(&out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}

#[test]
fn fault_e2_data_may_be_spread_over_lines_and_stand_without_a_space() {
    for format in SSE {
        let expected = read(format, &body(format));
        for (from, to) in
            [("data: ", "data:"), ("data: {", "data: {\ndata: "), ("data: ", "id: 7\nretry: 9\ndata: ")]
        {
            let body = body(format).replace(from, to);
            assert_eq!(assemble(&items(format, &body)), expected, "{format:?} {to:?}");
        }
        let unended = body(format);
        assert_eq!(assemble(&items(format, unended.trim_end())), expected, "{format:?}: no line end last");
        assert_eq!(
            assemble(&items(format, &format!("\r\n\n\r{unended}"))),
            expected,
            "{format:?}: blank lines first"
        );
    }
}
