//! Writes messages, for tests.

use super::HeaderValue;

/// A message with these headers and this payload.
pub(in crate::wire) fn message(headers: &[(&str, HeaderValue<'_>)], payload: &[u8]) -> Vec<u8> {
    let headers: Vec<u8> = headers.iter().flat_map(|(name, value)| header(name, value)).collect();
    raw(&headers, payload)
}

/// A message with headers that are written already.
pub(in crate::wire) fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut out = prelude(total, u32::try_from(headers.len()).unwrap());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

/// A prelude that says these lengths, with its checksum.
pub(in crate::wire) fn prelude(total: u32, headers: u32) -> Vec<u8> {
    let mut out = [total.to_be_bytes(), headers.to_be_bytes()].concat();
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

fn header(name: &str, value: &HeaderValue<'_>) -> Vec<u8> {
    let mut out = vec![u8::try_from(name.len()).unwrap()];
    out.extend_from_slice(name.as_bytes());
    let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let (kind, value) = match value {
        HeaderValue::Bool(true) => (0, vec![]),
        HeaderValue::Bool(false) => (1, vec![]),
        HeaderValue::Byte(n) => (2, n.to_be_bytes().to_vec()),
        HeaderValue::Short(n) => (3, n.to_be_bytes().to_vec()),
        HeaderValue::Int(n) => (4, n.to_be_bytes().to_vec()),
        HeaderValue::Long(n) => (5, n.to_be_bytes().to_vec()),
        HeaderValue::Bytes(bytes) => (6, sized(bytes)),
        HeaderValue::Text(text) => (7, sized(text.as_bytes())),
        HeaderValue::Timestamp(n) => (8, n.to_be_bytes().to_vec()),
        HeaderValue::Uuid(bytes) => (9, bytes.to_vec()),
    };
    out.push(kind);
    out.extend(value);
    out
}
