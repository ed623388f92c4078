//! Every type of header, wrong checksums, absurd lengths, cut messages, any split.

use proptest::prelude::*;

use super::{
    encode::{message, prelude, raw},
    *,
};

type Owned = (Vec<(String, String)>, Vec<u8>);

fn own(message: Message<'_>) -> Owned {
    let headers = message.headers().into_iter().map(|(name, value)| (name.to_owned(), format!("{value:?}")));
    (headers.collect(), message.payload().to_vec())
}

/// The messages, and the error that ended them; whether a message was cut.
fn read<'a>(
    mut framer: EventStreamFramer,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Owned>, Option<ErrorKind>, bool) {
    let mut out = Vec::new();
    for chunk in chunks {
        if let Err(error) = framer.feed(chunk, |m| out.push(own(m))) {
            return (out, Some(error.kind), false);
        }
    }
    (out, None, framer.is_inside())
}

/// Whole, at every split and one byte at a time: all the same.
fn check(bytes: &[u8]) -> (Vec<Owned>, Option<ErrorKind>, bool) {
    let whole = read(EventStreamFramer::new(), [bytes]);
    for split in 0..=bytes.len() {
        let (a, b) = bytes.split_at(split);
        assert_eq!(read(EventStreamFramer::new(), [a, b]), whole, "split at {split}");
    }
    assert_eq!(read(EventStreamFramer::new(), bytes.chunks(1)), whole);
    whole
}

#[test]
fn every_type_of_header_is_read_at_every_split() {
    let headers = [
        ("yes", HeaderValue::Bool(true)),
        ("no", HeaderValue::Bool(false)),
        ("byte", HeaderValue::Byte(-8)),
        ("short", HeaderValue::Short(-30_000)),
        ("int", HeaderValue::Int(i32::MIN)),
        ("long", HeaderValue::Long(i64::MAX)),
        ("bytes", HeaderValue::Bytes(&[0, 255])),
        (":text", HeaderValue::Text("été")),
        ("at", HeaderValue::Timestamp(1_700_000_000_000)),
        ("id", HeaderValue::Uuid([7; 16])),
        (":text", HeaderValue::Text("second")),
    ];
    let bytes = message(&headers, b"payload");
    let (found, error, inside) = check(&[&bytes[..], &message(&[], b"")].concat());
    let expected = headers.map(|(name, value)| (name.to_owned(), format!("{value:?}"))).to_vec();
    assert_eq!(found, [(expected, b"payload".to_vec()), (vec![], vec![])]);
    assert_eq!((error, inside), (None, false));
    let mut texts = Vec::new();
    let on_message = |m: Message<'_>| {
        texts = [":text", "yes", "none"].map(|name| m.text(name).map(str::to_owned)).to_vec();
    };
    EventStreamFramer::new().feed(&bytes, on_message).unwrap();
    assert_eq!(texts, [Some("été".into()), None, None], "the first of a name counts, and only a string");
}

/// What another implementation wrote, byte for byte.
#[test]
fn a_known_message_is_read() {
    let known =
        b"\x00\x00\x00\x3d\x00\x00\x00\x20\x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json\
        {'foo':'bar'}\x8d\x9c\x08\xb1";
    let (found, error, _) = check(known);
    let header = ("content-type".to_owned(), "Text(\"application/json\")".to_owned());
    assert_eq!((found, error), (vec![(vec![header], b"{'foo':'bar'}".to_vec())], None));
}

#[test]
fn any_wrong_bit_is_noticed() {
    let bytes = message(&[("a", HeaderValue::Text("b"))], b"{}");
    let before = message(&[], b"before");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = [before.clone(), bytes.clone()].concat();
            wrong[before.len() + at] ^= 1 << bit;
            let (found, error, _) = read(EventStreamFramer::new(), [&wrong[..]]);
            assert_eq!(found.len(), 1, "what came before is handed out");
            assert_eq!(error, Some(ErrorKind::Decode), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_wrong_checksum_of_the_prelude_is_noticed_before_its_length_is_believed() {
    let (found, error, _) = check(&[0, 0, 0, 16, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!((found, error), (vec![], Some(ErrorKind::Decode)));
    let (found, error, _) = check(b"HTTP/1.1 502 Bad Gateway");
    assert_eq!((found, error), (vec![], Some(ErrorKind::Decode)));
}

#[test]
fn absurd_lengths_are_refused_at_once() {
    let table = [
        (0, 0, ErrorKind::Decode),
        (15, 0, ErrorKind::Decode),
        (16, 1, ErrorKind::Decode),
        (40, u32::MAX, ErrorKind::Decode),
        (u32::MAX, 0, ErrorKind::TooLarge),
        (u32::MAX, u32::MAX - 16, ErrorKind::TooLarge),
        (16 * 1024 * 1024 + 1, 0, ErrorKind::TooLarge),
    ];
    for (total, headers, kind) in table {
        assert_eq!(check(&prelude(total, headers)), (vec![], Some(kind), false), "{total} {headers}");
    }
    assert_eq!(check(&prelude(16 * 1024 * 1024, 0)), (vec![], None, true), "at the limit");
    let bytes = message(&[], &[0; 84]);
    assert_eq!(read(EventStreamFramer::with_limit(100), [&bytes[..]]).1, None);
    assert_eq!(read(EventStreamFramer::with_limit(99), [&bytes[..]]).1, Some(ErrorKind::TooLarge));
}

#[test]
fn a_length_that_was_announced_takes_no_memory_before_its_bytes_come() {
    let mut framer = EventStreamFramer::new();
    framer.feed(&prelude(16 * 1024 * 1024, 0), |_| panic!("no message")).unwrap();
    assert!(framer.partial.capacity() < 1024, "{}", framer.partial.capacity());
}

#[test]
fn a_message_that_was_cut_anywhere_is_not_handed_out() {
    let (first, second) = (message(&[], b"first"), message(&[("a", HeaderValue::Byte(1))], b"second"));
    for cut in 1..second.len() {
        let (found, error, inside) = read(EventStreamFramer::new(), [&first[..], &second[..cut]]);
        assert_eq!((found.len(), error, inside), (1, None, true), "cut at {cut}");
    }
}

#[test]
fn malformed_headers_are_refused() {
    for headers in [
        &b"\x01"[..], // a name that is missing
        b"\x01a",     // a type that is missing
        b"\x01a\x0a", // a type that is not known
        b"\x01a\x02", // values that are cut
        b"\x01a\x03\x00",
        b"\x01a\x04\x00\x00\x00",
        b"\x01a\x05\x00",
        b"\x01a\x06\x00",
        b"\x01a\x07\x00\x02x",
        b"\x01a\x08\x00",
        b"\x01a\x09\x00",
        b"\x01\xff\x00", // a name, and a string, that are not UTF-8
        b"\x01a\x07\x00\x01\xff",
        b"\x01a\x00\x05", // one that is right before one that is cut
    ] {
        assert_eq!(check(&raw(headers, b"")).1, Some(ErrorKind::Decode), "{headers:?}");
    }
}

#[test]
fn every_byte_is_progress() {
    let mut framer = EventStreamFramer::new();
    let bytes = message(&[], b"x");
    framer.feed(&bytes[..5], |_| {}).unwrap();
    assert_eq!(framer.progress(), 5);
    framer.feed(&bytes[5..], |_| {}).unwrap();
    assert_eq!(framer.progress(), bytes.len() as u64);
}

/// Messages of many kinds, whole.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        any::<bool>().prop_map(|yes| message(&[("b", HeaderValue::Bool(yes))], b"")),
        any::<i64>()
            .prop_map(|n| message(&[("n", HeaderValue::Long(n)), ("t", HeaderValue::Timestamp(n))], b"")),
        (any::<String>(), any::<Vec<u8>>())
            .prop_map(|(text, payload)| message(&[(":t", HeaderValue::Text(&text))], &payload)),
    ];
    proptest::collection::vec(value, 0..6).prop_map(|messages| messages.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_messages(bytes in messages(), size in 1usize..50) {
        let whole = read(EventStreamFramer::new(), [&bytes[..]]);
        prop_assert_eq!((whole.1, whole.2), (None, false));
        prop_assert_eq!(read(EventStreamFramer::new(), bytes.chunks(size)), whole);
    }

    #[test]
    fn any_bytes_are_read_or_refused_alike_at_any_split(
        bytes in any::<Vec<u8>>(), headers in any::<Vec<u8>>(), size in 1usize..50,
    ) {
        for bytes in [bytes.clone(), [raw(&headers, b"x"), bytes].concat()] {
            let whole = read(EventStreamFramer::with_limit(1000), [&bytes[..]]);
            prop_assert_eq!(read(EventStreamFramer::with_limit(1000), bytes.chunks(size)), whole);
        }
    }

    #[test]
    fn any_change_of_whole_messages_is_noticed_or_leaves_them_cut(
        bytes in messages(), at in any::<prop::sample::Index>(), by in 1u8.., size in 1usize..50,
    ) {
        prop_assume!(!bytes.is_empty());
        let mut wrong = bytes.clone();
        wrong[at.index(bytes.len())] ^= by;
        let (found, error, _) = read(EventStreamFramer::new(), wrong.chunks(size));
        prop_assert_eq!(error, Some(ErrorKind::Decode));
        let right = read(EventStreamFramer::new(), [&bytes[..]]).0;
        prop_assert!(right.starts_with(&found), "nothing that was changed is handed out");
    }
}
