//! Replacing a text within a text, whose line ends and byte-order mark stay.

use std::ops::Range;

use super::{LARGEST, excerpt::MOST_PLACES};

const MARK: char = '\u{feff}';
/// How many places are named when a text occurs too often.
const MOST_NAMED: usize = 20;

/// A text after its edit.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    pub(super) count: usize,
    /// What is new in it; the first places only.
    pub(super) changed: Vec<Range<usize>>,
}

/// Replaces `old`, which occurs once, or as often as it does. The error says why not.
pub(super) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Edited, String> {
    let source = Source::of(text);
    let (old, new) = (source.asked(old), source.asked(new));
    if old.is_empty() {
        return Err("old_text is empty".into());
    }
    if old == new {
        return Err("old_text and new_text are the same".into());
    }
    let places = source.places(&old, all)?;
    let mut out = String::with_capacity(text.len());
    let mut changed = Vec::new();
    let mut after = 0;
    for at in &places {
        let range = source.original(*at)..source.original(at + old.len());
        out.push_str(&text[after..range.start]);
        let begin = out.len();
        source.push(&mut out, *at, &new);
        if out.len() > LARGEST {
            return Err(format!("it would grow beyond {} MiB", LARGEST >> 20));
        }
        if changed.len() < MOST_PLACES {
            changed.push(begin..out.len());
        }
        after = range.end;
    }
    out.push_str(&text[after..]);
    if out.len() > LARGEST {
        return Err(format!("it would grow beyond {} MiB", LARGEST >> 20));
    }
    if out == text {
        return Err("it already reads so".into());
    }
    Ok(Edited { text: out, count: places.len(), changed })
}

/// A text as models know it: no byte-order mark, and every line ends in LF.
struct Source {
    flat: String,
    /// How many bytes the mark has.
    mark: usize,
    /// The line ends of the flat text, and those of them that are CRLF in the file.
    ends: Vec<usize>,
    wide: Vec<usize>,
}

impl Source {
    fn of(text: &str) -> Self {
        let body = text.strip_prefix(MARK).unwrap_or(text);
        let mark = text.len() - body.len();
        let wide: Vec<_> = body.match_indices("\r\n").enumerate().map(|(n, (at, _))| at - n).collect();
        let flat = if wide.is_empty() { body.to_owned() } else { body.replace("\r\n", "\n") };
        let ends = flat.match_indices('\n').map(|(at, _)| at).collect();
        Self { flat, mark, ends, wide }
    }

    /// What a model gave, in the same form. In a file without CRLF everything is meant as it stands.
    fn asked(&self, given: &str) -> String {
        let given = if self.mark > 0 { given.strip_prefix(MARK).unwrap_or(given) } else { given };
        if self.wide.is_empty() { given.to_owned() } else { given.replace("\r\n", "\n") }
    }

    /// Where that place of the flat text stands in the file.
    fn original(&self, at: usize) -> usize {
        self.mark + at + self.wide.partition_point(|end| *end < at)
    }

    fn line(&self, at: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < at)
    }

    fn places(&self, old: &str, all: bool) -> Result<Vec<usize>, String> {
        let mut places: Vec<_> = self.flat.match_indices(old).map(|(at, _)| at).collect();
        let Some(first) = places.first().copied() else {
            return Err("old_text does not occur in it; copy it exactly, white space included".into());
        };
        if all {
            return Ok(places);
        }
        if places.len() == 1 {
            // `aa` occurs twice in `aaa`.
            let next = first + old.chars().next().map_or(1, char::len_utf8);
            places.extend(self.flat[next..].find(old).map(|at| next + at));
        }
        match places.len() {
            1 => Ok(places),
            n => {
                let lines = places.iter().take(MOST_NAMED).map(|at| self.line(*at).to_string());
                let lines = lines.collect::<Vec<_>>().join(", ");
                let more = if n > MOST_NAMED { ", …" } else { "" };
                Err(format!(
                    "old_text occurs {n} times, at lines {lines}{more}; add lines round it, or set replace_all"
                ))
            }
        }
    }

    /// Adds what comes in a place, with the line ends of that place: those of its own line, or of the one before.
    fn push(&self, out: &mut String, at: usize, new: &str) {
        let here = self.ends.partition_point(|end| *end < at);
        let end = self.ends.get(here).or(self.ends.last());
        let is_wide = end.is_some_and(|end| self.wide.binary_search(end).is_ok());
        if is_wide {
            out.push_str(&new.replace('\n', "\r\n"));
        } else {
            out.push_str(new);
        }
    }
}
