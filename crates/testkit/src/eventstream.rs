//! Messages of AWS's binary event stream, as Bedrock sends them: for servers and recordings of your own.

use std::iter::once;

/// A message with these headers, whose values are text, and this payload.
///
/// # Panics
/// When the name of a header is longer than 255 bytes, its value than 65,535, or all of it than 4 GiB: no message can
/// say so.
pub fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    /// The type of a value that is text.
    const TEXT: u8 = 7;
    let header = |(name, value): &(&str, &str)| -> Vec<u8> {
        let name = once(sized::<u8>(name.len())).chain(name.bytes()).chain(once(TEXT));
        name.chain(sized::<u16>(value.len()).to_be_bytes()).chain(value.bytes()).collect()
    };
    let headers: Vec<u8> = headers.iter().flat_map(header).collect();
    // Two lengths and two checksums stand beside them.
    let total = sized::<u32>(headers.len() + payload.len() + 16);
    let mut out = [total.to_be_bytes(), sized::<u32>(headers.len()).to_be_bytes()].concat();
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload);
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

/// An event of a model's answer: its type, such as `contentBlockDelta`, and its JSON.
///
/// # Panics
/// As [`message`].
pub fn event(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
    message(&headers, payload.as_bytes())
}

/// An exception in place of an event: its type, such as `throttlingException`, and its JSON.
///
/// # Panics
/// As [`message`].
pub fn exception(kind: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":exception-type", kind), (":content-type", "application/json"), (":message-type", "exception")];
    message(&headers, payload.as_bytes())
}

#[expect(clippy::panic, reason = "a test that asks for what cannot be is told so")]
fn sized<N: TryFrom<usize>>(length: usize) -> N {
    N::try_from(length).unwrap_or_else(|_| panic!("{length} bytes are more than a message can say"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_llm_stream::wire::eventstream::{EventStreamFramer, HeaderValue};

    #[test]
    fn what_is_written_is_what_the_framer_reads() {
        let mut found = Vec::new();
        let bytes = [event("contentBlockDelta", "{\"a\":1}"), exception("x", "")].concat();
        EventStreamFramer::new()
            .feed(&bytes, |message| {
                let headers: Vec<_> = message
                    .headers()
                    .into_iter()
                    .map(|(name, value)| match value {
                        HeaderValue::Text(value) => format!("{name}={value}"),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                found.push((headers.join(" "), message.payload().to_vec()));
            })
            .unwrap();
        let expected = [
            (
                ":event-type=contentBlockDelta :content-type=application/json :message-type=event".to_owned(),
                b"{\"a\":1}".to_vec(),
            ),
            (":exception-type=x :content-type=application/json :message-type=exception".to_owned(), vec![]),
        ];
        assert_eq!(found, expected);
    }
}
