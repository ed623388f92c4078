//! What a command printed: its head and its tail, however much there is between them.

use std::collections::VecDeque;

/// What a process printed, within bounds.
#[derive(Debug)]
pub struct Capture {
    /// How many bytes are kept of the beginning, and of the end.
    most: (usize, usize),
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Capture {
    /// Keeps so many bytes: two fifths of them of the beginning, the rest of the end.
    pub fn of(bytes: usize) -> Self {
        let head = bytes / 5 * 2;
        Self { most: (head, bytes - head), head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    /// More was printed.
    pub fn push(&mut self, bytes: &[u8]) {
        let (most_head, most_tail) = self.most;
        let (head, rest) = bytes.split_at(bytes.len().min(most_head - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(most_tail);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// As text, with nothing in it that is not to be seen. Says how much was left out.
    pub fn text(mut self) -> String {
        let tail = self.tail.make_contiguous();
        if self.left_out == 0 {
            self.head.extend_from_slice(tail);
            return printable(&self.head);
        }
        // No character is shown in halves.
        let begun = tail.iter().take(3).take_while(|byte| is_inside(**byte)).count();
        let whole = whole(&self.head);
        let left_out = self.left_out + begun as u64 + (self.head.len() - whole) as u64;
        let (head, tail) = (printable(&self.head[..whole]), printable(&tail[begun..]));
        format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
    }
}

/// Whether a byte is not the first one of its character.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes there are up to a character that has only begun.
fn whole(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(4);
    match bytes.iter().skip(last).rposition(|byte| !is_inside(*byte)) {
        Some(first) => match std::str::from_utf8(&bytes[last + first..]) {
            Err(e) if e.error_len().is_none() => last + first,
            _ => bytes.len(),
        },
        None => bytes.len(),
    }
}

/// One visible character for each that is none, and for each byte that is no text, so that it never grows in characters.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let seen = |c: char| match c {
        '\n' | '\t' => c,
        // Unicode has a picture of each.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: usize = 16_000;
    const TAIL: usize = 24_000;

    #[test]
    fn what_fits_is_whole() {
        let mut capture = Capture::of(HEAD + TAIL);
        for _ in 0..HEAD + TAIL {
            capture.push(b"x");
        }
        assert_eq!(capture.text(), "x".repeat(HEAD + TAIL));
    }

    #[test]
    fn what_does_not_fit_keeps_both_ends_and_counts_the_rest() {
        let mut capture = Capture::of(HEAD + TAIL);
        capture.push(b"first\n");
        for _ in 0..1000 {
            capture.push(&[b'x'; 10_000]);
        }
        capture.push(b"\nlast");
        assert!(capture.head.capacity() + capture.tail.capacity() < 200_000, "memory is bounded");
        let text = capture.text();
        assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast"));
        let left_out = 10_000_000 + 11 - HEAD - TAIL;
        assert!(text.contains(&format!("\n[… {left_out} bytes left out …]\n")));
    }

    #[test]
    fn no_character_is_cut() {
        let mut capture = Capture::of(HEAD + TAIL);
        capture.push(b"x");
        capture.push("é".repeat(HEAD + TAIL).as_bytes());
        let text = capture.text();
        assert!(!text.contains('\u{fffd}'), "{}", &text[..20]);
        assert_eq!(text.matches('é').count(), (HEAD - 2) / 2 + TAIL / 2);
    }

    #[test]
    fn what_is_no_text_is_made_visible() {
        assert_eq!(
            printable(b"a\0b\x1b[31m\xff\xfe\r\n\tc\rd\x7f\xc2\x85"),
            "a␀b␛[31m\u{fffd}\u{fffd}\n\tc␍d␡\u{fffd}"
        );
    }
}
