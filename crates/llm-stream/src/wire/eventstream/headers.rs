//! The headers of a message.

use turnwright_core::ErrorInfo;

use super::broken;

/// The value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderValue<'a> {
    /// Yes or no.
    Bool(bool),
    /// A number of 8 bits.
    Byte(i8),
    /// A number of 16 bits.
    Short(i16),
    /// A number of 32 bits.
    Int(i32),
    /// A number of 64 bits.
    Long(i64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A string.
    Text(&'a str),
    /// Milliseconds since the start of 1970, UTC.
    Timestamp(i64),
    /// A UUID.
    Uuid([u8; 16]),
}

/// The headers of a message, read anew whenever they are iterated: nothing is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// Headers that were read once without a fault.
    pub(super) fn checked(bytes: &'a [u8]) -> Result<Self, ErrorInfo> {
        let mut rest = bytes;
        while !rest.is_empty() {
            next(&mut rest).ok_or_else(|| broken("the headers of a message are malformed"))?;
        }
        Ok(Self(bytes))
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = (&'a str, HeaderValue<'a>);
    type IntoIter = HeadersIter<'a>;
    fn into_iter(self) -> HeadersIter<'a> {
        HeadersIter(self.0)
    }
}

/// Reads headers one after the other.
#[derive(Debug, Clone)]
pub struct HeadersIter<'a>(&'a [u8]);

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a str, HeaderValue<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        next(&mut self.0)
    }
}

/// Reads the header that the bytes begin with; nothing when they are malformed. A type that is not known cannot be
/// skipped, since only its type says how long a value is.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, HeaderValue<'a>)> {
    let [length] = array(rest)?;
    let name = text(take(rest, usize::from(length))?)?;
    let [kind] = array(rest)?;
    let value = match kind {
        0 => HeaderValue::Bool(true),
        1 => HeaderValue::Bool(false),
        2 => HeaderValue::Byte(i8::from_be_bytes(array(rest)?)),
        3 => HeaderValue::Short(i16::from_be_bytes(array(rest)?)),
        4 => HeaderValue::Int(i32::from_be_bytes(array(rest)?)),
        5 => HeaderValue::Long(i64::from_be_bytes(array(rest)?)),
        6 => HeaderValue::Bytes(sized(rest)?),
        7 => HeaderValue::Text(text(sized(rest)?)?),
        8 => HeaderValue::Timestamp(i64::from_be_bytes(array(rest)?)),
        9 => HeaderValue::Uuid(array(rest)?),
        _ => return None,
    };
    Some((name, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    take(rest, N)?.try_into().ok()
}

/// A value that follows its length in two bytes.
fn sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_be_bytes(array(rest)?);
    take(rest, usize::from(length))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
