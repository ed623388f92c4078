//! Bytes into lines, within a bound.

use std::mem;

use super::{LONGEST_LINE, Typed};

/// Collects bytes until they make lines.
#[derive(Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    /// The line is too long already: the rest of it is skipped.
    skips: bool,
}

impl Lines {
    /// Takes bytes and hands over each line they end.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(Typed)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            self.add(&bytes[..end]);
            line(self.take());
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
    }

    /// The last line, if it does not end like one.
    pub(super) fn finish(&mut self) -> Option<Typed> {
        (self.skips || !self.line.is_empty()).then(|| self.take())
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skips || self.line.len() + bytes.len() > LONGEST_LINE {
            self.skips = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn take(&mut self) -> Typed {
        let mut line = mem::take(&mut self.line);
        if mem::take(&mut self.skips) {
            return Typed::Refused(format!("a line is longer than {} MiB", LONGEST_LINE >> 20));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        match String::from_utf8(line) {
            Ok(line) => Typed::Line(line),
            Err(_) => Typed::Refused("a line is not valid UTF-8".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Typed> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, |line| out.push(line));
        }
        out.extend(lines.finish());
        out
    }

    fn line(text: &str) -> Typed {
        Typed::Line(text.into())
    }

    #[test]
    fn bytes_become_lines_wherever_they_are_cut() {
        let text = "one\r\n\nzwö\nlast".as_bytes();
        let expected = [line("one"), line(""), line("zwö"), line("last")];
        for at in 0..text.len() {
            assert_eq!(lines(&[&text[..at], &text[at..]]), expected, "{at}");
        }
        assert_eq!(lines(&[b"a\n"]), [line("a")]);
        assert_eq!(lines(&[]), []);
    }

    #[test]
    fn what_cannot_be_a_line_is_refused_and_the_next_one_is_whole() {
        let long = vec![b'a'; LONGEST_LINE];
        assert_eq!(lines(&[&long, b"\nb"]), [line(&"a".repeat(LONGEST_LINE)), line("b")]);
        let refused = Typed::Refused("a line is longer than 4 MiB".into());
        assert_eq!(lines(&[&long, b"a", b"more", b"\nb\n"]), [refused.clone(), line("b")]);
        assert_eq!(lines(&[&long, b"a"]), [refused]);
        assert_eq!(
            lines(&[b"\xff\xfe\nb\n"]),
            [Typed::Refused("a line is not valid UTF-8".into()), line("b")]
        );
    }
}
