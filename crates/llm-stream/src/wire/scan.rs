//! Where a JSON object or array ends, found while its bytes arrive.

/// Follows the nesting of one JSON object or array that arrives in pieces. Each byte is looked at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JsonScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    complete: bool,
}

impl JsonScan {
    /// Takes the next bytes. When the value ends among them, says after how many; what follows is not looked at.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (true, _) => {}
                (false, b'{' | b'[') => self.depth = self.depth.saturating_add(1),
                (false, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.complete = true;
                        return Some(at + 1);
                    }
                }
                (false, _) => {}
            }
        }
        None
    }

    /// Whether the value has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_through_strings_and_escapes_at_any_split() {
        let text = br#"{"a":"}\"]","b":[{"c":"\\"}]}"#;
        assert_eq!(JsonScan::default().push(text), Some(text.len()));
        for split in 0..text.len() {
            let mut scan = JsonScan::default();
            assert_eq!(scan.push(&text[..split]), None);
            assert_eq!(scan.push(&text[split..]), Some(text.len() - split));
            assert!(scan.is_complete());
        }
        assert_eq!(JsonScan::default().push(b"{} x"), Some(2));
    }
}
