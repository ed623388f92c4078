//! Buffers of framers: they grow with what arrives, and not beyond a limit.

use turnwright_core::{ErrorInfo, ErrorKind};

/// Appends the bytes. The memory of the buffer doubles as it fills up, but is never more than the limit, which the bytes
/// must have been checked against.
pub(crate) fn append(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let length = buffer.len() + bytes.len();
    if length > buffer.capacity() {
        let wanted = buffer.capacity().saturating_mul(2).min(limit).max(length);
        buffer.reserve_exact(wanted - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}

/// Refuses a line or an event (`what`) of so many bytes when that is more than the limit.
pub(crate) fn check(what: &str, length: usize, limit: usize) -> Result<(), ErrorInfo> {
    if length <= limit {
        return Ok(());
    }
    let message = format!("{what} of the stream is larger than {limit} bytes");
    Err(ErrorInfo::new(ErrorKind::TooLarge, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_buffer_doubles_up_to_the_limit() {
        let (mut buffer, mut growths) = (Vec::new(), 0);
        for _ in 0..1000 {
            let before = buffer.capacity();
            append(&mut buffer, b"123", 3000);
            growths += usize::from(buffer.capacity() > before);
        }
        assert_eq!((buffer.len(), buffer.capacity()), (3000, 3000));
        assert!(growths < 15, "{growths}");
    }
}
