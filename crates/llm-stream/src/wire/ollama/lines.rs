//! Lines: bytes in, one JSON value each out.

use memchr::memchr;
use turnwright_core::ErrorInfo;

use crate::{
    sse::MAX_EVENT_BYTES,
    wire::{
        buffer::{append, check},
        scan::JsonScan,
    },
};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Takes the body apart into lines. A value that is spread over several lines, as errors of proxies are, is handed out
/// whole. A line that lies whole in the bytes fed is handed out as a slice of them. Each byte is looked at once or twice,
/// whatever the chunks are; a line of more than [`MAX_EVENT_BYTES`] is refused.
#[derive(Debug, Default)]
pub(super) struct LineFramer {
    /// The start of a line, or of a value, whose end has not come.
    partial: Vec<u8>,
    /// Set while a value goes on over the end of a line.
    value: Option<JsonScan>,
    /// Whether a line came.
    began: bool,
    progress: u64,
}

impl LineFramer {
    /// How many bytes arrived, blank ones not counted where nothing else came with them.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// Takes the next bytes and hands out every line they complete, without blanks at its ends; no blank lines.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut on_line: impl FnMut(&[u8])) -> Result<(), ErrorInfo> {
        while !bytes.is_empty() {
            let end = match &mut self.value {
                Some(scan) => scan.push(bytes),
                None => memchr(b'\n', bytes).map(|at| at + 1),
            };
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            check("a line", self.partial.len() + piece.len(), MAX_EVENT_BYTES)?;
            if !piece.trim_ascii().is_empty() {
                self.progress += piece.len() as u64;
            }
            if end.is_none() || !self.partial.is_empty() {
                append(&mut self.partial, piece, MAX_EVENT_BYTES);
            }
            if end.is_none() {
                continue;
            }
            let held = std::mem::take(&mut self.partial);
            let line = if held.is_empty() { piece } else { &held[..] };
            if self.value.take().is_none()
                && let Some(scan) = goes_on(line)
            {
                self.value = Some(scan);
                self.partial = line.to_vec();
                continue;
            }
            self.hand_out(line, &mut on_line);
            self.partial = held;
            self.partial.clear();
        }
        Ok(())
    }

    /// Says that no more bytes come, and hands out what is left, which may be cut.
    pub(super) fn end(&mut self, mut on_line: impl FnMut(&[u8])) {
        let rest = std::mem::take(&mut self.partial);
        self.hand_out(&rest, &mut on_line);
    }

    fn hand_out(&mut self, line: &[u8], on_line: &mut impl FnMut(&[u8])) {
        let line = match line.strip_prefix(BOM) {
            Some(line) if !self.began => line,
            _ => line,
        };
        self.began = true;
        let line = line.trim_ascii();
        if !line.is_empty() {
            on_line(line);
        }
    }
}

/// Whether a value goes on after this line; then, how far it is. A value that ends with its line ends in a bracket, so
/// that most lines need no look inside.
fn goes_on(line: &[u8]) -> Option<JsonScan> {
    let text = line.trim_ascii();
    let begins = matches!(text, [b'{' | b'[', ..]) && !matches!(text, [.., b'}' | b']']);
    let mut scan = JsonScan::default();
    (begins && scan.push(line).is_none()).then_some(scan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use turnwright_core::ErrorKind;

    fn lines<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut framer, mut out) = (LineFramer::default(), Vec::new());
        let mut keep = |line: &[u8]| out.push(String::from_utf8_lossy(line).into_owned());
        for chunk in chunks {
            framer.feed(chunk, &mut keep).unwrap();
        }
        framer.end(&mut keep);
        out
    }

    #[test]
    fn fault_e3_r1_23_lines_end_in_any_way_and_blank_ones_are_skipped() {
        let text = "\u{feff}{\"a\":1}\r\n\n \n{\"b\":\"}\"}\n{\n \"c\": {\n  \"d\": \"\\\"}\"\n }\n}\nx\n[\n]\n{\"e\":";
        let expected =
            ["{\"a\":1}", "{\"b\":\"}\"}", "{\n \"c\": {\n  \"d\": \"\\\"}\"\n }\n}", "x", "[\n]", "{\"e\":"];
        assert_eq!(lines([text.as_bytes()]), expected);
        for split in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(split);
            assert_eq!(lines([a, b]), expected, "split at {split}");
        }
    }

    #[test]
    fn a_line_has_a_cap_however_it_comes() {
        for start in [&b"{\"a\":\""[..], b"{\n"] {
            let mut framer = LineFramer::default();
            framer.feed(start, |_| ()).unwrap();
            let piece = vec![b'x'; 1024 * 1024];
            for _ in 0..15 {
                framer.feed(&piece, |_| ()).unwrap();
            }
            let error = framer.feed(&piece, |_| ()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::TooLarge);
            assert!(framer.partial.len() <= MAX_EVENT_BYTES);
        }
    }

    #[test]
    fn blank_lines_are_no_progress() {
        let mut framer = LineFramer::default();
        framer.feed(b"\n \r\n", |_| ()).unwrap();
        assert_eq!(framer.progress(), 0);
        framer.feed(b"{}\n", |_| ()).unwrap();
        assert_eq!(framer.progress(), 3);
    }

    proptest! {
        #[test]
        fn fault_e2_any_split_gives_the_same_lines(text in "([{}\\[\\]\"\\\\a \r\n]|\u{feff}){0,60}", size in 1usize..9) {
            prop_assert_eq!(lines(text.as_bytes().chunks(size)), lines([text.as_bytes()]));
        }
    }
}
