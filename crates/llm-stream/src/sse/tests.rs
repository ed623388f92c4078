//! Every line end at every split, caps, and what is no SSE.

use turnwright_core::ErrorKind;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owned {
    Event(String, Vec<u8>),
    Bare(Vec<u8>),
}

fn own(frame: Frame<'_>) -> Owned {
    match frame {
        Frame::Event { name, data } => Owned::Event(String::from_utf8_lossy(name).into(), data.to_vec()),
        Frame::Bare(bytes) => Owned::Bare(bytes.to_vec()),
    }
}

fn event(name: &str, data: &str) -> Owned {
    Owned::Event(name.into(), data.into())
}

fn frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let (mut framer, mut out) = (SseFramer::new(), Vec::new());
    for chunk in chunks {
        framer.feed(chunk, |f| out.push(own(f))).unwrap();
    }
    framer.end(|f| out.push(own(f))).unwrap();
    out
}

/// Whole, at every split, and one byte at a time.
fn check(input: &[u8], expected: &[Owned]) {
    assert_eq!(frames([input]), expected, "{}", String::from_utf8_lossy(input));
    for split in 0..=input.len() {
        let (a, b) = input.split_at(split);
        assert_eq!(frames([a, b]), expected, "{:?} | {:?}", a.as_bstr(), b.as_bstr());
    }
    assert_eq!(frames(input.chunks(1)), expected);
}

trait AsBstr {
    fn as_bstr(&self) -> std::borrow::Cow<'_, str>;
}
impl AsBstr for [u8] {
    fn as_bstr(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self)
    }
}

#[test]
fn fault_e1_e2_e3_r1_21_r1_25_any_line_end_at_any_split_gives_the_same_events() {
    let text = "\n\nevent: a\ndata: été €😀\n\ndata:x\ndata: y\ndata:  z\n\n: comment\ndata: last\n\n";
    let expected = [event("a", "été €😀"), event("", "x\ny\n z"), event("", "last")];
    for end in ["\n", "\r", "\r\n"] {
        check(text.replace('\n', end).as_bytes(), &expected);
    }
    check(b"data: a\r\rdata: b\n\r\ndata: c\r\n\n", &[event("", "a"), event("", "b"), event("", "c")]);
}

#[test]
fn fault_e3_an_event_does_not_wait_for_the_next_one() {
    for end in ["\n\n", "\r\r", "\r\n\r"] {
        let (mut framer, mut out) = (SseFramer::new(), Vec::new());
        framer.feed(format!("data: a{end}").as_bytes(), |f| out.push(own(f))).unwrap();
        assert_eq!(out, [event("", "a")], "{end:?}");
    }
}

#[test]
fn fault_r1_23_a_leading_byte_order_mark_is_skipped_and_a_part_of_one_is_not() {
    check(b"\xEF\xBB\xBFdata: a\n\n", &[event("", "a")]);
    check(b"\xEF\xBB\xBF", &[]);
    check(b"\xEF\xBBdata: a\n\ndata: b\n\n", &[event("", "b")]);
    check(b"data: \xEF\xBB\xBFa\n\n", &[event("", "\u{feff}a")]);
}

#[test]
fn fault_e5_comments_are_ignored_and_are_no_progress() {
    check(b": hi\n\n:\ndata: a\n: mid\n\n", &[event("", "a")]);
    let mut framer = SseFramer::new();
    for chunk in [": keep", "alive\n", "\n", ":\r\n\r\n"] {
        framer.feed(chunk.as_bytes(), |_| panic!("no frame")).unwrap();
        assert_eq!(framer.progress(), 0, "{chunk:?}");
    }
    framer.feed(b"data: {", |_| {}).unwrap();
    assert_eq!(framer.progress(), 7);
}

#[test]
fn pings_and_events_without_data_are_no_progress() {
    let quiet = "event: ping\ndata: {\"type\": \"ping\"}\n\nevent: keepalive\ndata: {}\n\ndata:\n\ndata: \n\nevent: x\n\nretry: 5\n\nid: 1\n\ndata";
    for size in [1, 2, 5, quiet.len()] {
        let mut framer = SseFramer::new();
        for chunk in quiet.as_bytes().chunks(size) {
            framer.feed(chunk, |_| {}).unwrap();
        }
        assert_eq!(framer.progress(), 0, "by {size}");
        framer.feed(b": x", |_| {}).unwrap();
        assert!(framer.progress() > 0, "by {size}");
    }
    let mut framer = SseFramer::new();
    framer.feed(b"{", |_| {}).unwrap();
    assert!(framer.progress() > 0);
}

#[test]
fn fault_e24_an_error_event_without_data_is_reported() {
    check(b"event: error\n\n", &[event("error", "")]);
    check(b"event: error\ndata:\n\n", &[event("error", "")]);
    check(b"event: ping\n\ndata: a\n\n", &[event("", "a")]);
}

#[test]
fn the_last_event_needs_no_blank_line_and_other_fields_are_ignored() {
    check(b"id: 1\nretry: 5\n data: no\ndatum: no\ndata: a", &[event("", "a")]);
    check(b"data: a\n", &[event("", "a")]);
    check(b"data", &[event("", "")]);
    check(b"", &[]);
}

#[test]
fn fault_e23_bare_json_and_markup_are_handed_out_where_they_end() {
    let json = "{\n  \"error\": {\n\n \"message\": \"}\\\"\"\n  }\n}";
    let bare = || Owned::Bare(json.into());
    check(json.as_bytes(), &[bare()]);
    check(format!("data: a\n\n{json}\n\ndata: b\n\n").as_bytes(), &[event("", "a"), bare(), event("", "b")]);
    check(format!("data: a\r\n{json}\r\n").as_bytes(), &[event("", "a"), bare()]);
    check(format!(" \t{json}\n").as_bytes(), &[bare()]);
    check(b"data: a\n \n  data: b\n\n", &[event("", "a")]);
    check(b"  <html>\n", &[Owned::Bare(b"<html>".into())]);
    check(b"[{}]", &[Owned::Bare(b"[{}]".into())]);
    check(b"{\"cut\": ", &[Owned::Bare(b"{\"cut\": ".into())]);
    check(b"<html>\n", &[Owned::Bare(b"<html>".into())]);
    let (mut framer, mut out) = (SseFramer::new(), Vec::new());
    framer.feed(json.as_bytes(), |f| out.push(own(f))).unwrap();
    assert_eq!(out, [bare()], "without waiting for the end of the input");
}

#[test]
fn fault_r1_25_a_line_or_event_over_the_cap_is_a_typed_error_at_any_split() {
    let fails = |input: &str| {
        for size in [1, 3, input.len()] {
            let mut framer = SseFramer::with_limit(16);
            let result = input.as_bytes().chunks(size).try_for_each(|c| framer.feed(c, |_| {}));
            assert_eq!(result.map_err(|e| e.kind), Err(ErrorKind::TooLarge), "{input:?} by {size}");
        }
    };
    fails("data: 45678901234\n\n");
    fails("data: 45678901\ndata: 45678901\n\n");
    fails("{\"a\": 4567890123}");
    fails(": 456789012345678\n");
    fails("event: 89012345\ndata: 4567890123\n\n");
    fails("data: 4567890123\nevent: 89012345\n\n");
    let mut framer = SseFramer::with_limit(16);
    framer.feed(b"data: 4567890123\n\ndata: 4567890123\n\n", |_| {}).unwrap();
}

#[test]
fn fault_r1_24_a_line_of_8_mb_in_small_chunks_is_linear() {
    let mut input = b"data: ".to_vec();
    input.resize(8 << 20, b'x');
    input.extend_from_slice(b"\n\n");
    let (mut framer, mut lengths) = (SseFramer::new(), Vec::new());
    #[expect(clippy::disallowed_methods, reason = "a test that measures")]
    let started = std::time::Instant::now();
    for chunk in input.chunks(1024) {
        framer
            .feed(chunk, |f| match f {
                Frame::Event { data, .. } => lengths.push(data.len()),
                Frame::Bare(_) => panic!("not bare"),
            })
            .unwrap();
    }
    assert_eq!(lengths, [(8 << 20) - 6]);
    // Quadratic work would be 32 GiB of scanning: minutes. The margin is for slow debug builds.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn a_data_line_that_lies_whole_in_the_bytes_is_not_copied() {
    let input = b"data: abc\n\n".to_vec();
    let inside = input.as_ptr_range();
    let mut seen = 0;
    SseFramer::new()
        .feed(&input, |f| {
            let Frame::Event { data, .. } = f else { panic!("{f:?}") };
            assert!(inside.contains(&data.as_ptr()));
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, 1);
}
