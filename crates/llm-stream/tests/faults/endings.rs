//! How a stream may end, and what follows.

use turnwright_core::ErrorKind;
use turnwright_llm_stream::{FinishReason, LlmEvent, StreamItem};

use crate::{
    format::{ALL, Format, SSE, Say},
    read::{assemble, decode, failure, items, read},
};

const TEXT: [Say<'_>; 2] = [Say::Text("ha"), Say::Text("lf é")];

#[test]
fn fault_d1_r1_9_r1_32_a_body_that_is_cut_anywhere_is_no_success() {
    let mut says = TEXT.to_vec();
    says.push(Say::Call("c", "f", "{\"a\":1}"));
    for format in ALL {
        let frames = format.answer(&says);
        let body = format.body(&frames);
        // What is said last, from which on a cut loses nothing.
        let enders = match format {
            Format::Chat | Format::Messages => 2,
            _ => 1,
        };
        let whole = format.body(&frames[..frames.len() - enders]).len();
        for cut in 0..whole {
            let response = assemble(&decode(format, [&body.as_bytes()[..cut]]));
            let error = response.error.as_ref().unwrap_or_else(|| panic!("{format:?} cut at {cut}"));
            assert_eq!(error.kind, ErrorKind::Truncated, "{format:?} cut at {cut}: {error}");
            assert!(error.is_retryable() && error.provider.as_deref() == Some("p"), "{format:?}: {error}");
            assert_eq!(response.finish_reason, None, "{format:?}");
            assert!("half é".starts_with(&response.text()), "{format:?}: {}", response.text());
            assert!(response.calls_may_run().is_err(), "{format:?} cut at {cut}");
        }
        for cut in whole..body.len() {
            let response = assemble(&decode(format, [&body.as_bytes()[..cut]]));
            let kind = response.error.as_ref().map(|e| e.kind);
            let is_known = matches!(kind, None | Some(ErrorKind::Truncated));
            assert!(is_known, "{format:?} cut at {cut}: {kind:?}");
            assert_eq!(response.text(), "half é", "{format:?} cut at {cut}");
        }
    }
}

#[test]
fn fault_d2_d3_r1_7_r1_31_nothing_follows_an_ending_of_either_kind() {
    for format in ALL {
        // These wait for usage after the finish; the mark says that none comes.
        let mark = if matches!(format, Format::Chat | Format::Gemini) { "data: [DONE]\n\n" } else { "" };
        let whole = format.body(&format.answer(&TEXT)) + mark;
        let error = match format {
            Format::Ollama => "{\"error\":\"M\"}\n",
            _ => "event: error\ndata: {\"error\":{\"message\":\"M\"}}\n\n",
        };
        let failed = format.half() + error;
        for (first, fails) in [(&whole, false), (&failed, true)] {
            let expected = decode(format, [first.as_bytes()]);
            assert_eq!(assemble(&expected).error.is_some(), fails, "{format:?}");
            for then in [&whole, &failed, "garbage\n\n", "data: [DONE]\n\n", "{\"error\":1}\n", "<html>\n"] {
                let apart = decode(format, [first.as_bytes(), then.as_bytes()]);
                let joined = decode(format, [(first.clone() + then).as_bytes()]);
                assert_eq!((&apart, &joined), (&expected, &expected), "{format:?}: {then}");
            }
        }
    }
}

#[test]
fn fault_e6_e8_a_finish_reason_is_enough_for_success() {
    for format in ALL {
        let frames = format.answer(&TEXT);
        let without_mark = match format {
            Format::Messages => &frames[..frames.len() - 1],
            _ => &frames[..],
        };
        let (mut decoder, mut out) = (format.decoder(), Vec::new());
        decoder.feed(format.body(&without_mark[..without_mark.len() - 1]).as_bytes(), &mut out);
        let seen_early = format == Format::Chat;
        assert_eq!(decoder.finish_seen(), seen_early, "{format:?}");
        decoder.feed(format.body(&without_mark[without_mark.len() - 1..]).as_bytes(), &mut out);
        assert!(decoder.finish_seen(), "{format:?}: whoever reads waits only a short while from now on");
        decoder.end(&mut out);
        let response = assemble(&out);
        assert_eq!((response.error, response.finish_reason), (None, Some(FinishReason::Stop)), "{format:?}");
        assert_eq!(response.usage.total_tokens(), Some(12), "{format:?}");
    }
}

#[test]
fn fault_e7_r1_19_an_end_mark_with_any_spacing_ends_the_stream_at_once() {
    for format in SSE {
        for mark in [
            "data: [DONE]\n\n",
            "data:[DONE]\r\n\r\n",
            "data:   [ DONE ]  \n\n",
            "event: data\ndata: [DONE]\n\n",
        ] {
            let frames = format.answer(&TEXT);
            let finished = format.body(&frames);
            let (mut decoder, mut out) = (format.decoder(), Vec::new());
            decoder.feed(finished.as_bytes(), &mut out);
            decoder.feed(mark.as_bytes(), &mut out);
            assert!(decoder.is_done(), "{format:?} {mark:?}: though the socket stays open");
            assert_eq!(assemble(&out).finish_reason, Some(FinishReason::Stop), "{format:?} {mark:?}");
            assert_eq!(assemble(&items(format, &(finished + mark))), assemble(&out), "{format:?} {mark:?}");
        }
    }
}

#[test]
fn fault_e8_r1_32_an_end_mark_without_a_finish_is_judged_by_what_the_format_promises() {
    // Some servers of this one never send a reason; in the others the mark is a proxy's.
    let chat = read(Format::Chat, &(Format::Chat.half() + "data: [DONE]\n\n"));
    assert_eq!((&chat.error, chat.text().as_str()), (&None, "half"));
    for format in [Format::Responses, Format::Messages, Format::Gemini] {
        let error = failure(format, &(format.half() + "data: [DONE]\n\n"));
        assert_eq!(error.kind, ErrorKind::Truncated, "{format:?}");
    }
}

#[test]
fn fault_r1_10_an_answer_that_goes_on_after_a_finish_reason_is_not_finished() {
    for format in [Format::Chat, Format::Messages, Format::Gemini] {
        let finish = &format.finish(FinishReason::Stop, None)[..1];
        let body = |end: bool| {
            let mut frames = format.unfinished(&[Say::Text("a")]);
            frames.extend_from_slice(finish);
            frames.extend(format.say(1, Say::Text("b")));
            frames.extend(if end { format.finish(FinishReason::Length, None) } else { Vec::new() });
            format.body(&frames)
        };
        let response = assemble(&items(format, &body(true)));
        assert_eq!(
            (response.text().as_str(), response.finish_reason),
            ("ab", Some(FinishReason::Length)),
            "{format:?}"
        );
        assert_eq!(failure(format, &body(false)).kind, ErrorKind::Truncated, "{format:?}");
    }
}

#[test]
fn fault_e25_a_second_answer_in_the_stream_is_an_error_and_not_shown() {
    for format in SSE {
        let first = match format {
            // There the last event ends it.
            Format::Responses => format.unfinished(&TEXT),
            Format::Messages => {
                let mut frames = format.answer(&TEXT);
                frames.pop();
                frames
            }
            _ => format.answer(&TEXT),
        };
        let other = |frames: Vec<_>| format.body(&frames).replace("\"r\"", "\"r2\"");
        let second = other(format.start("r2")) + &other(format.say(5, Say::Text("other")));
        let response = assemble(&items(format, &(format.body(&first) + &second)));
        let kind = response.error.as_ref().map(|e| e.kind);
        assert_eq!((kind, response.text().as_str()), (Some(ErrorKind::Protocol), "half é"), "{format:?}");
    }
}

#[test]
fn fault_r2_35_every_ending_is_told_with_the_providers_word() {
    for format in ALL {
        for reason in [FinishReason::Stop, FinishReason::Length, FinishReason::ContentFilter] {
            if reason == FinishReason::ContentFilter && matches!(format, Format::Messages | Format::Ollama) {
                continue;
            }
            // An answer of nothing has a reason too.
            for says in [&TEXT[..], &[]] {
                let mut frames = format.unfinished(says);
                frames.extend(format.finish(reason, None));
                let response = assemble(&items(format, &format.body(&frames)));
                assert_eq!((response.error, response.finish_reason), (None, Some(reason)), "{format:?}");
                assert!(response.raw_finish_reason.is_some_and(|word| !word.is_empty()), "{format:?}");
            }
        }
    }
}

#[test]
fn fault_e28_e30_empty_text_is_nothing_and_thoughts_alone_are_no_answer() {
    for format in ALL {
        let body = format.body(&format.answer(&[Say::Thought("hm"), Say::Text("")]));
        let response = assemble(&items(format, &body));
        assert_eq!((response.reasoning().as_str(), response.is_empty()), ("hm", true), "{format:?}");
        let body = format.body(&format.answer(&[Say::Text(""), Say::Call("c", "f", "{}"), Say::Text("")]));
        let items = items(format, &body);
        let is_text = |item: &StreamItem| matches!(item, StreamItem::Event(LlmEvent::TextDelta { .. }));
        assert!(!items.iter().any(is_text), "{format:?}: {items:?}");
        assert_eq!(assemble(&items).tool_calls().count(), 1, "{format:?}");
    }
}
